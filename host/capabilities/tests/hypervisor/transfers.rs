//! Images into volumes of a real pool, from a server that does not always keep its word.

use std::{fs, sync::Arc, time::Duration};

use egress_capabilities::{LibvirtCapability, TransferCapability};
use egress_runtime::capability::{
    Fill, Libvirt, LibvirtConnection, Progress, Transfer, TransferFailure, TransferFailureKind as Kind,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    images::Images,
    lab::{POOL, capability, installation, name, variable},
};

struct Tried {
    libvirt: Arc<LibvirtCapability>,
    transfer: TransferCapability,
    images: Images,
    digest: String,
    length: u64,
}

impl Tried {
    async fn new(image: Vec<u8>, grant: Value) -> Self {
        let libvirt = capability(json!({}));
        let grant = serde_json::from_value(grant).unwrap();
        let transfer = TransferCapability::new(grant, Arc::clone(&libvirt)).unwrap();
        let (digest, length) = (hex::encode(Sha256::digest(&image)), image.len() as u64);
        Self { libvirt, transfer, images: Images::new(image).await, digest, length }
    }

    async fn raw() -> Self {
        let image = (0..3_000_001_u32).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
        Self::new(image, json!({ "inside": ["127.0.0.0/8"], "timeouts": { "stallMs": 1500 } })).await
    }

    fn fill(&self, path: &str) -> Fill {
        Fill {
            host: "hv".to_owned(),
            pool: POOL.to_owned(),
            volume: format!("{}.raw", name(path)),
            url: self.images.url(path),
            format: "raw".to_owned(),
            sha256: None,
        }
    }

    /// Asks until it is over.
    async fn through(&self, fill: &Fill) -> Result<Progress, TransferFailure> {
        loop {
            let progress = self.transfer.ensure(fill).await?;
            if progress.sha256.is_some() {
                return Ok(progress);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn host(&self) -> Arc<dyn LibvirtConnection> {
        self.libvirt.open("hv", false).await.unwrap()
    }

    async fn fails(&self, fill: &Fill, kind: Kind, said: &str) {
        let failure = self.through(fill).await.unwrap_err();
        assert_eq!(failure.kind, kind, "{}", failure.message);
        assert!(failure.message.contains(said), "{}", failure.message);
        self.host().await.pool_refresh(POOL).await.unwrap();
        let volumes = self.host().await.volumes(POOL).await.unwrap();
        assert!(!volumes.contains(&fill.volume), "nothing is left of it");
        assert_eq!(self.transfer.status("hv", POOL, &fill.volume).await.unwrap(), None, "it was told once");
    }

    async fn arrives(&self, fill: &Fill) {
        let done = self.through(fill).await.unwrap();
        let whole =
            Progress { bytes: self.length, total: Some(self.length), sha256: Some(self.digest.clone()) };
        assert_eq!(done, whole);
        assert_eq!(self.transfer.status("hv", POOL, &fill.volume).await.unwrap(), Some(whole), "told again");
        let host = self.host().await;
        let read = host.volume_download(POOL, &fill.volume, 4 << 20).await.unwrap();
        assert_eq!(hex::encode(Sha256::digest(&read)), self.digest, "what stands there");
        host.volume_delete(POOL, &fill.volume).await.unwrap();
        let gone = self.transfer.status("hv", POOL, &fill.volume).await.unwrap();
        assert_eq!(gone, None, "nothing is said of what was removed");
    }
}

#[tokio::test]
#[ignore = "needs a host"]
async fn an_image_arrives_whole_with_and_without_its_length_and_over_redirects() {
    let tried = Tried::raw().await;
    for path in ["whole", "unsized", "moved"] {
        let sha256 = Some(tried.digest.to_uppercase());
        tried.arrives(&Fill { sha256, ..tried.fill(path) }).await;
    }
}

#[tokio::test]
#[ignore = "needs a host"]
async fn an_image_that_was_removed_is_fetched_anew() {
    let tried = Tried::raw().await;
    for asked in [1, 2] {
        tried.arrives(&tried.fill("whole")).await;
        assert_eq!(tried.images.asked("whole"), asked);
    }
}

#[tokio::test]
#[ignore = "needs a host"]
async fn a_cut_image_is_taken_up_where_it_broke_off() {
    let tried = Tried::raw().await;
    tried.arrives(&tried.fill("cut")).await;
    assert_eq!(tried.images.asked("cut"), 4, "each asked for the rest alone");
}

#[tokio::test]
#[ignore = "needs a host"]
async fn an_image_that_does_not_come_as_promised_leaves_nothing() {
    let tried = Tried::raw().await;
    tried.fails(&tried.fill("changed"), Kind::Cut, "broke").await;
    tried.fails(&tried.fill("short"), Kind::Cut, "broke").await;
    tried.fails(&tried.fill("stall"), Kind::Timeout, "nothing came for 1500 ms").await;
    tried.fails(&tried.fill("loop"), Kind::Redirects, "more than 5").await;
    tried.fails(&tried.fill("inside"), Kind::Denied, "169.254.169.254").await;
    tried.fails(&tried.fill("nothing"), Kind::Status, "404").await;
    let sha256 = Some("0".repeat(64));
    tried.fails(&Fill { sha256, ..tried.fill("whole") }, Kind::DigestMismatch, &tried.digest).await;
    let nobody = Fill { url: "http://127.0.0.1:2/x".to_owned(), ..tried.fill("nobody") };
    tried.fails(&nobody, Kind::Connect, "127.0.0.1:2").await;
    let nameless = Fill { url: "http://images.invalid/x".to_owned(), ..tried.fill("nameless") };
    tried.fails(&nameless, Kind::Name, "images.invalid").await;
    let plain = Fill { url: tried.images.url("whole").replace("http:", "https:"), ..tried.fill("tls") };
    tried.fails(&plain, Kind::Tls, "TLS").await;
    let wrong = Fill { format: "qcow2".to_owned(), ..tried.fill("whole") };
    tried.fails(&wrong, Kind::Denied, "no qcow2").await;
}

#[tokio::test]
#[ignore = "needs a host"]
async fn a_server_inside_and_an_image_too_large_are_refused() {
    let image = vec![7; 100_000];
    let tried = Tried::new(image.clone(), json!({})).await;
    tried.fails(&tried.fill("whole"), Kind::Denied, "grants.transfer.inside").await;
    let probed = tried.transfer.probe(&tried.images.url("whole")).await.unwrap_err();
    assert_eq!(probed.kind, Kind::Denied);
    assert_eq!(tried.images.asked("whole"), 0, "nobody was asked");
    let tried = Tried::new(image, json!({ "inside": ["127.0.0.1"], "maxBytes": 99_999 })).await;
    for path in ["whole", "unsized"] {
        tried.fails(&tried.fill(path), Kind::TooLarge, "maxBytes").await;
    }
}

#[tokio::test]
#[ignore = "needs a host"]
async fn one_transfer_fills_a_volume_whoever_asks_and_what_stands_there_stays() {
    let tried = Tried::raw().await;
    let fill = tried.fill("whole");
    let all = futures::future::join_all((0..20).map(|_| tried.through(&fill))).await;
    assert!(all.iter().all(|done| done.as_ref().is_ok_and(|done| done.bytes == tried.length)));
    assert_eq!(tried.images.asked("whole"), 1);
    // A host that was started anew knows of none.
    let other = Tried::raw().await;
    let failure = other.through(&fill).await.unwrap_err();
    assert_eq!(failure.kind, Kind::Exists, "{}", failure.message);
    let host = tried.host().await;
    let read = host.volume_download(POOL, &fill.volume, 4 << 20).await.unwrap();
    assert_eq!(read.len() as u64, tried.length, "and it is as it was");
    host.volume_delete(POOL, &fill.volume).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a host"]
async fn an_image_whose_volume_somebody_removed_is_fetched_anew() {
    let tried = Tried::raw().await;
    for asked in 1..3 {
        // It leaves no volume, and the transfer is still told as done.
        tried.arrives(&tried.fill("whole")).await;
        assert_eq!(tried.images.asked("whole"), asked);
    }
}

#[tokio::test]
#[ignore = "needs a host"]
async fn a_qcow2_is_one_in_the_pool_afterwards() {
    let image = fs::read(variable("HYPERVISOR_GUEST")).unwrap();
    let tried = Tried::new(image, json!({ "inside": ["127.0.0.0/8"] })).await;
    for path in ["whole", "unsized"] {
        let volume = format!("proxy-base-{}-kvm-{path}.qcow2", installation().hash());
        let fill = Fill { volume, format: "qcow2".to_owned(), ..tried.fill(path) };
        let offer = tried.transfer.probe(&tried.images.url("whole")).await.unwrap();
        assert_eq!((offer.size, offer.etag.as_deref()), (Some(tried.length), Some("\"1\"")));
        let done = tried.through(&fill).await.unwrap();
        assert_eq!(done.sha256.as_deref(), Some(tried.digest.as_str()));
        let host = tried.host().await;
        let document = host.volume_xml(POOL, &fill.volume).await.unwrap();
        assert!(document.contains("<format type='qcow2'/>"), "{document}");
        host.volume_delete(POOL, &fill.volume).await.unwrap();
    }
}
