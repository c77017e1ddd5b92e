//! A server of images that does not keep its word, as kvm2 tells it: each fault with its class, its reason and the way
//! out, and nothing left at a real host.

use std::{env, path::PathBuf};

use serde_json::{Value, json};

use super::{
    command::{epo, file, ran, workspace},
    images::Images,
};

fn variable(name: &str) -> String {
    env::var(name)
        .unwrap_or_else(|_| panic!("{name} is not set; use host/capabilities/tests/hypervisor/run.sh"))
}

fn entry(image: &Value, inside: &str) -> Value {
    json!({
        "module": { "file": "any.wasm" },
        "config": {
            "hosts": [{ "name": "hv" }],
            "images": { "tiny": image },
            "machineTypes": { "small": { "vcpus": 1, "memoryMiB": 256 } },
            "diskSizeGb": 1,
        },
        "grants": {
            "libvirt": { "hosts": { "hv": {
                "address": variable("HYPERVISOR_ADDRESS"), "user": "lab",
                "key": { "file": PathBuf::from(variable("HYPERVISOR_RUN")).join("id") },
                "knownHosts": { "file": PathBuf::from(variable("HYPERVISOR_RUN")).join("known_hosts") },
                "pools": ["default"], "bridges": ["br0"],
            } } },
            "transfer": { "inside": [inside], "timeouts": { "stallMs": 1500 } },
        },
    })
}

/// What the pool of the real host has of ours.
fn volumes() -> Vec<String> {
    let command = format!(
        "{0} virsh pool-refresh default >/dev/null && {0} virsh vol-list default",
        variable("HYPERVISOR_WITHIN")
    );
    let ended = std::process::Command::new("bash").args(["-c", &command]).output().unwrap();
    assert!(ended.status.success());
    let said = String::from_utf8(ended.stdout).unwrap();
    said.split_whitespace().filter(|word| word.starts_with("proxy-")).map(str::to_owned).collect()
}

#[tokio::test]
#[ignore = "needs a real libvirt host: make libvirt"]
async fn an_image_server_that_breaks_its_word_is_told_with_the_way_out_and_leaves_nothing() {
    let mut image = std::fs::read(variable("HYPERVISOR_GUEST")).unwrap();
    // A part will do: nothing here boots.
    image.truncate(3_000_000);
    let server = Images::new(image).await;
    let nobody = "0".repeat(64);
    let component = workspace().join("target/providers/kvm2.wasm");
    assert!(component.exists(), "{} is missing: run make providers first", component.display());
    let before = volumes();
    let image = |path: &str| json!({ "url": server.url(path), "firmware": "bios" });
    let here = "127.0.0.1/32";
    let with_digest = json!({ "url": server.url("whole"), "sha256": nobody });
    let named_raw = json!({ "url": server.url("whole"), "format": "raw" });
    for (what, image, inside, class, reason, said) in [
        ("stalls", image("stall"), here, "transient", "timeout", ["nothing came for 1500 ms", "stallMs"]),
        ("cuts", image("changed"), here, "transient", "unreachable", ["127.0.0.1", "image's server"]),
        (
            "lies about its length",
            image("short"),
            here,
            "transient",
            "unreachable",
            ["broke", "image's server"],
        ),
        (
            "leads inside",
            image("inside"),
            here,
            "permanent",
            "forbidden",
            ["169.254.169.254", "grants.transfer.inside"],
        ),
        (
            "is inside",
            image("whole"),
            "10.1.0.0/16",
            "permanent",
            "forbidden",
            ["127.0.0.1", "grants.transfer.inside"],
        ),
        (
            "serves another digest",
            with_digest,
            here,
            "permanent",
            "image",
            [nobody.as_str(), "correct the entry's sha256"],
        ),
        ("has it no more", image("nothing"), here, "permanent", "image", ["404", "correct the image's URL"]),
        ("leads in a circle", image("loop"), here, "permanent", "image", ["more than 5", "give the URL"]),
        ("serves another format", named_raw, here, "permanent", "forbidden", ["is a qcow2", "another image"]),
    ] {
        let (_folder, entry) = file("kvm2.yaml", entry(&image, inside).to_string().as_bytes());
        let mut command = epo();
        command.args(["provider", "call"]).arg(&component).args([
            "create",
            "--until-done",
            "--backend",
            "real",
        ]);
        command.args(["--entry", &entry]);
        let ran = tokio::task::spawn_blocking(move || ran(command.output().unwrap())).await.unwrap();
        println!("{what}: {}", ran.out.lines().last().unwrap_or_default());
        assert_eq!(ran.code, 1, "{what}: {}{}", ran.out, ran.err);
        for part in [class, reason, said[0], said[1]] {
            assert!(ran.out.contains(part), "{what}: {part:?} is missing in {}", ran.out);
        }
        assert_eq!(volumes(), before, "{what}");
    }
}
