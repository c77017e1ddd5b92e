//! The kinds that the directory knows, and what each is called.

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// What people want.
    Proxy,
    /// What the operator knows of an entry.
    ProviderHealth,
    /// Provider entries, user-data, modules, and what the operator keeps.
    ConfigMap,
    /// Credentials, user-data, and the installation's identity.
    Secret,
    /// What people should see once.
    Event,
    /// Only kube-system, which stands for the directory itself.
    Namespace,
    /// Only that of Proxies, which is never deleted here.
    Definition,
}

/// What a kind is called in paths, documents and folders.
pub struct Named {
    /// Which it is.
    pub of: Kind,
    /// Before everything else in a path.
    pub prefix: &'static str,
    /// In documents.
    pub api_version: &'static str,
    /// In documents.
    pub kind: &'static str,
    /// In paths, and the folder's name.
    pub plural: &'static str,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
}

const ALL: [Named; 7] = [
    Named {
        of: Kind::Proxy,
        prefix: "/apis/egressproxies.dev/v1alpha1",
        api_version: "egressproxies.dev/v1alpha1",
        kind: "Proxy",
        plural: "proxies",
        namespaced: true,
    },
    Named {
        of: Kind::ProviderHealth,
        prefix: "/apis/egressproxies.dev/v1alpha1",
        api_version: "egressproxies.dev/v1alpha1",
        kind: "ProviderHealth",
        plural: "providerhealths",
        namespaced: false,
    },
    Named {
        of: Kind::ConfigMap,
        prefix: "/api/v1",
        api_version: "v1",
        kind: "ConfigMap",
        plural: "configmaps",
        namespaced: true,
    },
    Named {
        of: Kind::Secret,
        prefix: "/api/v1",
        api_version: "v1",
        kind: "Secret",
        plural: "secrets",
        namespaced: true,
    },
    Named {
        of: Kind::Event,
        prefix: "/apis/events.k8s.io/v1",
        api_version: "events.k8s.io/v1",
        kind: "Event",
        plural: "events",
        namespaced: true,
    },
    Named {
        of: Kind::Namespace,
        prefix: "/api/v1",
        api_version: "v1",
        kind: "Namespace",
        plural: "namespaces",
        namespaced: false,
    },
    Named {
        of: Kind::Definition,
        prefix: "/apis/apiextensions.k8s.io/v1",
        api_version: "apiextensions.k8s.io/v1",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        namespaced: false,
    },
];

impl Kind {
    /// Every kind.
    pub fn all() -> &'static [Named] {
        &ALL
    }

    /// What it is called.
    pub fn named(self) -> &'static Named {
        // Each kind has a row; a test counts them.
        ALL.iter().find(|named| named.of == self).unwrap_or(&ALL[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for named in Kind::all() {
            assert_eq!(named.of.named().plural, named.plural);
        }
    }
}
