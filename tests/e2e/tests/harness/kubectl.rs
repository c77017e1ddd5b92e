//! `kubectl`, as people have it, and whether it shows what the pages say.

use std::process::Command;

use super::{Lab, eventually};

/// What it prints; it has to end well.
pub fn kubectl(lab: &Lab, arguments: &[&str]) -> String {
    try_kubectl(lab, arguments).unwrap_or_else(|said| panic!("kubectl {arguments:?}: {said}"))
}

/// What it prints, or what it says to its failure.
pub fn try_kubectl(lab: &Lab, arguments: &[&str]) -> Result<String, String> {
    let kubectl = std::env::var("KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
    let mut command = Command::new(kubectl);
    command.arg("--kubeconfig").arg(&lab.kubeconfig).args(arguments);
    let output = command.output().expect("kubectl runs");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
}

/// Until a symptom shows as docs/troubleshooting.md has it.
pub async fn shows(lab: &Lab, symptom: &str, describe: &[&str]) {
    eventually(symptom, async || {
        let shown = try_kubectl(lab, &[&["describe"], describe].concat())?;
        let shown: Vec<String> = shown.lines().map(str::to_owned).collect();
        let complaint = docs_tests::shown::complaint(symptom, &shown);
        if complaint.is_empty() { Ok(()) } else { Err(complaint) }
    })
    .await;
}
