//! The credentials behind an entry's grants, so that none of them is shown or written down.
//!
//! No component ever sees one, but a backend may repeat what it was sent. What a credential helper gives is not
//! known here; it is known by its looks.

use std::{fs, path::Path};

use base64::{Engine, prelude::BASE64_STANDARD};
use egress_operator::config::Settings;
use egress_sim::redactor::Redactor;
use serde_json::Value;

use crate::cluster::ClusterArgs;

/// The token in a Pod.
const IN_CLUSTER: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// Where a kubeconfig holds a credential.
const VALUES: [&str; 7] =
    ["token", "password", "client-key-data", "id-token", "refresh-token", "access-token", "client-secret"];
/// Where it names a file with one.
const FILES: [&str; 2] = ["tokenFile", "client-key"];

/// With whatever the grants, and the kubeconfigs that they lead to, hold.
pub fn known(mut redactor: Redactor, settings: &Settings, home: &ClusterArgs) -> Redactor {
    let clusters = settings.grants.kubernetes.iter().flat_map(|grant| grant.clusters.values());
    for cluster in clusters {
        if let Some(kubeconfig) = &cluster.kubeconfig {
            redactor = of_kubeconfig(redactor, &kubeconfig.file);
        }
        if cluster.operator {
            for path in home.files() {
                redactor = of_kubeconfig(redactor, &path);
            }
        }
        if cluster.operator || cluster.in_cluster {
            redactor = of_file(redactor, Path::new(IN_CLUSTER));
        }
    }
    redactor
}

/// One that can't be read lends nothing either.
fn of_kubeconfig(redactor: Redactor, path: &Path) -> Redactor {
    let text = fs::read_to_string(path).unwrap_or_default();
    let kubeconfig: Value = serde_saphyr::from_str(&text).unwrap_or_default();
    let folder = path.parent().unwrap_or(Path::new("."));
    of_value(redactor, &kubeconfig, folder)
}

fn of_value(redactor: Redactor, value: &Value, folder: &Path) -> Redactor {
    match value {
        Value::Object(object) => object.iter().fold(redactor, |redactor, (key, value)| match value {
            Value::String(credential) if VALUES.contains(&key.as_str()) => {
                let decoded = BASE64_STANDARD.decode(credential).unwrap_or_default();
                redactor.and(credential.as_bytes()).and(&decoded)
            }
            Value::String(file) if FILES.contains(&key.as_str()) => of_file(redactor, &folder.join(file)),
            other => of_value(redactor, other, folder),
        }),
        Value::Array(values) => {
            values.iter().fold(redactor, |redactor, value| of_value(redactor, value, folder))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => redactor,
    }
}

fn of_file(redactor: Redactor, path: &Path) -> Redactor {
    redactor.and(&fs::read(path).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_credential_of_a_kubeconfig_is_known() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("token"), "token-in-a-file\n").unwrap();
        let user =
            "{token: token-itself, password: hunter2, client-key-data: cHJpdmF0ZS1rZXk=, tokenFile: token}";
        let path = folder.path().join("config");
        fs::write(&path, format!("users: [{{name: x, user: {user}}}]\n")).unwrap();
        let redactor = of_kubeconfig(Redactor::default(), &path);
        let said = "token-itself hunter2 cHJpdmF0ZS1rZXk= private-key token-in-a-file and x";
        assert_eq!(redactor.text(said), "[redacted] [redacted] [redacted] [redacted] [redacted] and x");
    }
}
