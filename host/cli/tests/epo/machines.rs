//! The providers for libvirt, as somebody calls them by hand: a machine lives and dies on a real host.

use std::{
    collections::BTreeSet,
    env, fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use super::command::{epo, file, ran, workspace};

/// An emulated guest on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

fn variable(name: &str) -> String {
    env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set; use host/capabilities/tests/hypervisor/run.sh"))
}

/// Serves the tiny guest's image to whoever asks; gives its URL.
fn image() -> String {
    let image = fs::read(variable("HYPERVISOR_GUEST")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/tiny.qcow2", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let length = image.len();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            let is_get = head.starts_with(b"GET ");
            let _ = stream.write_all(answer.as_bytes());
            let _ = if is_get { stream.write_all(&image) } else { Ok(()) };
        }
    });
    url
}

/// What `virsh` names: the domains and the volumes.
fn things() -> BTreeSet<String> {
    let lists = ["virsh list --all --name", "virsh vol-list default"];
    let of = |list: &str| {
        let command = format!("{} {list}", variable("HYPERVISOR_WITHIN"));
        let ended = Command::new("bash").args(["-c", &command]).output().unwrap();
        assert!(ended.status.success(), "{list}");
        let lines = String::from_utf8(ended.stdout).unwrap();
        lines
            .split_whitespace()
            .filter(|word| word.starts_with("proxy-"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    lists.into_iter().flat_map(of).collect()
}

struct Machine {
    component: PathBuf,
    entry: String,
}

impl Machine {
    /// Calls, one after the other, and gives what was answered.
    fn call(&self, exports: &[&str], id: Option<&str>) -> String {
        let mut command = epo();
        command.args(["provider", "call"]).arg(&self.component).args(exports);
        command.args(["--entry", &self.entry, "--backend", "real", "--until-done"]);
        if let Some(id) = id {
            command.args(["--id", id]);
        }
        let ran = ran(command.output().unwrap());
        assert_eq!(ran.code, 0, "{exports:?}: {}{}", ran.out, ran.err);
        ran.out
    }

    /// Until it shows an address.
    fn address(&self, id: &str) -> String {
        let start = Instant::now();
        loop {
            let seen = self.call(&["get"], Some(id));
            let addresses = seen.lines().find_map(|line| line.trim().strip_prefix("addresses"));
            if let Some(address) = addresses.and_then(|line| line.split_whitespace().next()) {
                assert!(seen.contains(": running"), "{seen}");
                return address.to_owned();
            }
            assert!(start.elapsed() < PATIENCE, "no address: {seen}");
            thread::sleep(Duration::from_secs(1));
        }
    }
}

/// Asks the guest's server on the proxy's port, until it answers.
fn answers(address: &str) -> String {
    let start = Instant::now();
    loop {
        let asked = TcpStream::connect((address, 3128)).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).map(|_| answer)
        });
        match asked {
            Ok(answer) if answer.starts_with("HTTP/1.") => return answer,
            other => assert!(start.elapsed() < PATIENCE, "{other:?}"),
        }
        thread::sleep(Duration::from_secs(1));
    }
}

#[test]
#[ignore = "needs a real libvirt host: make libvirt"]
fn a_machine_is_made_serves_and_goes_without_a_trace_by_both_providers() {
    let url = image();
    for provider in ["kvm2", "kvm"] {
        let component = workspace().join(format!("target/providers/{provider}.wasm"));
        assert!(component.exists(), "{} is missing: run make providers first", component.display());
        let entry = json!({
            "module": { "file": "any.wasm" },
            "config": {
                "hosts": [{ "name": "hv" }],
                "images": { "tiny": { "url": url, "firmware": "bios" } },
                "machineTypes": { "small": { "vcpus": 1, "memoryMiB": 256 } },
                "diskSizeGb": 1,
                "installGuestAgent": false,
            },
            "grants": {
                "libvirt": { "hosts": { "hv": {
                    "address": variable("HYPERVISOR_ADDRESS"), "user": "lab",
                    "key": { "file": PathBuf::from(variable("HYPERVISOR_RUN")).join("id") },
                    "knownHosts": { "file": PathBuf::from(variable("HYPERVISOR_RUN")).join("known_hosts") },
                    "pools": ["default"], "bridges": ["br0"],
                } } },
                "transfer": { "inside": ["127.0.0.1/32"] },
            },
        });
        let (_dir, entry) = file(&format!("{provider}.yaml"), entry.to_string().as_bytes());
        let machine = Machine { component, entry };
        assert!(machine.call(&["check"], None).contains("ready, reachable"));
        let before = things();

        let made = machine.call(&["create"], None);
        assert!(made.contains("downloading tiny"), "{made}");
        let id = made.lines().filter_map(|line| line.trim().strip_prefix("id ")).next_back().unwrap().trim();
        let listed = machine.call(&["list"], None);
        assert!(listed.contains(id), "{listed}");
        let address = machine.address(id);
        println!("{provider}: {id} at {address}: {:?}", answers(&address).lines().next());
        assert!(machine.call(&["create"], Some(id)).contains(": done"), "once more makes nothing anew");

        assert!(machine.call(&["delete"], Some(id)).contains("nothing is left"));
        let left: Vec<String> = things().difference(&before).cloned().collect();
        let shared = |name: &String| name.starts_with("proxy-base-");
        assert!(left.iter().all(shared) && left.len() <= 2, "only the image and its marker stay: {left:?}");
        assert!(machine.call(&["delete"], Some(id)).contains("nothing is left"), "once more, too");
    }
}
