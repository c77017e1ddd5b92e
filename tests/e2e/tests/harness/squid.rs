//! The Squid of a Pod, as the node's machine sees it: this one.

use std::{fs, process::Command};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use rustix::process::{Pid, Signal, kill_process};

/// A process that runs while its Pod does.
pub struct Squid(i32);

impl Squid {
    /// Found by its Pod's cgroup.
    pub fn of(pod: &Pod) -> Self {
        let uid = pod.uid().expect("a UID");
        let processes = fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let ours = |process: &i32| {
            let read = |what| fs::read_to_string(format!("/proc/{process}/{what}")).unwrap_or_default();
            read("comm").trim() == "squid" && read("cgroup").contains(&uid)
        };
        let found: Vec<_> = numbers.filter(ours).collect();
        assert_eq!(found.len(), 1, "the one Squid of Pod {uid}: {found:?}");
        Self(found[0])
    }

    /// Stops it where it is, or lets it go on.
    pub fn signal(&self, signal: Signal) {
        let process = Pid::from_raw(self.0).expect("a process");
        kill_process(process, signal).expect("Squid is signalled");
    }

    /// Its Pod has no way out of the Pods' network any more.
    pub fn lose_route(&self) {
        let process = self.0.to_string();
        let lost =
            Command::new("nsenter").args(["-t", &process, "-n", "ip", "route", "del", "default"]).output();
        let lost = lost.expect("nsenter runs");
        assert!(lost.status.success(), "{}", String::from_utf8_lossy(&lost.stderr));
    }
}
