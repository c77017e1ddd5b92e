//! A control plane of a test's own, for what would end the others: a kind that goes, a state that is lost or copied.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::Lab;

/// Without a node; ended when it is dropped.
pub struct Control {
    name: &'static str,
    pub lab: Lab,
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = script("down.sh", &[self.name]);
    }
}

impl Control {
    /// With nothing in it. What an earlier one of the name has left is removed.
    pub async fn empty(name: &'static str, port: u16) -> Self {
        Self::up(name, &[&port.to_string()]).await
    }

    /// With everything that another one holds at this moment, which goes on.
    pub async fn copy(of: &Self, name: &'static str, port: u16) -> Self {
        Self::up(name, &[&port.to_string(), of.name]).await
    }

    async fn up(name: &'static str, more: &[&str]) -> Self {
        script("down.sh", &[name]).expect("what an earlier run left is removed");
        let said = script("up.sh", &[&[name], more].concat()).unwrap_or_else(|said| panic!("{said}"));
        let kubeconfig = said.rsplit_once("KUBECONFIG=").expect("where its kubeconfig is").1.trim();
        Self { name, lab: Lab::at(PathBuf::from(kubeconfig)).await }
    }
}

fn script(name: &str, arguments: &[&str]) -> Result<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../labs/k8s").join(name);
    let output = Command::new(&path).args(arguments).output().map_err(|error| error.to_string())?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(said(&output.stdout)),
        false => Err(format!("{}: {}{}", path.display(), said(&output.stdout), said(&output.stderr))),
    }
}
