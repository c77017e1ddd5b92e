//! The profile: one value for each axis on which providers differ.
//!
//! The values are types, so a provider can't declare one that does not exist. `docs/author-guide.md` says
//! what each means.

use serde::Serialize;

macro_rules! axis {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_meta:meta])* $value:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$value_meta])* $value,)+ }

        impl $name {
            /// Every value of the axis.
            pub const ALL: &[Self] = &[$(Self::$value),+];
        }
    };
}

axis! {
    /// How long from create's `done` to an address.
    Readiness {
        /// Seconds.
        Immediate,
        /// Minutes of boot: get answers `provisioning` meanwhile.
        ProvisioningWindow,
    }
}
axis! {
    /// Where the address comes from.
    IpSource {
        /// The backend assigns and shows it.
        AssignedAtCreate,
        /// It is found out from the guest or the network.
        Discovered,
    }
}
axis! {
    /// Where the mark stands.
    GcMark {
        /// In labels that the backend can select by.
        NativeLabels,
        /// In metadata or a description that the provider writes and reads.
        WrittenMetadata,
    }
}
axis! {
    /// Where the time of creation comes from.
    CreatedAt {
        /// The backend records it.
        BackendTimestamp,
        /// The provider writes it beside the mark.
        WrittenAtCreate,
    }
}
axis! {
    /// Whether "no room" is told apart.
    Quota {
        /// By the backend's answer, or a look before anything is made.
        Detected,
        /// The backend has no such answer.
        Absent,
    }
}
axis! {
    /// How the backend says "gone".
    NotFound {
        /// HTTP status 404.
        #[serde(rename = "status-404")]
        Status404,
        /// A code of its own.
        ErrorCode,
    }
}
axis! {
    /// What finds the instance.
    PrimaryKey {
        /// Its name.
        NameIsKey,
        /// A number that the provider picks and verifies.
        AllocatedId,
    }
}
axis! {
    /// How "not usable yet" is known.
    ProvisioningState {
        /// A state of the backend says so.
        Native,
        /// It runs, and has no address yet.
        NoAddress,
    }
}
axis! {
    /// What an instance consists of beside itself.
    SecondaryResources {
        /// Nothing.
        None,
        /// The backend removes it with the instance.
        Cascade,
        /// The provider removes it by name.
        Explicit,
    }
}
axis! {
    /// How it is tested against the real thing.
    BackendTest {
        /// In a cluster that the tests bring up.
        ClusterE2e,
        /// Against a backend that the tests bring up.
        LabE2e,
        /// Against a backend that somebody names.
        IntegrationTag,
        /// By hand, after a runbook.
        ManualRunbook,
    }
}

/// One value for each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Profile {
    /// How long to an address.
    pub readiness: Readiness,
    /// Where the address comes from.
    pub ip_source: IpSource,
    /// Where the mark stands.
    pub gc_mark: GcMark,
    /// Where the time of creation comes from.
    pub created_at: CreatedAt,
    /// Whether "no room" is told apart.
    pub quota: Quota,
    /// How the backend says "gone".
    pub not_found: NotFound,
    /// What finds the instance.
    pub primary_key: PrimaryKey,
    /// How "not usable yet" is known.
    pub provisioning_state: ProvisioningState,
    /// What an instance consists of beside itself.
    pub secondary_resources: SecondaryResources,
    /// How it is tested against the real thing.
    pub backend_test: BackendTest,
}
