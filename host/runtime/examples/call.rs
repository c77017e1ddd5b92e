//! Loads a component and calls it: `cargo run -p egress-runtime --example call -- MODULE.wasm CONFIG.json`.

use std::{error::Error, fs};

use egress_contract::{Installation, Provider};
use egress_runtime::{Candidate, Lent, Limits, Runtime, RuntimeConfig, Slot};
use serde_json::Value;

#[path = "../tests/all/cluster.rs"]
mod cluster;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(module), Some(config)) = (args.next(), args.next()) else {
        return Err("usage: call MODULE.wasm CONFIG.json".into());
    };
    let runtime = Runtime::new(RuntimeConfig::default())?;
    let module = runtime.unpack(&fs::read(module)?)?;
    let slot = Slot::new(runtime, "example".parse()?, Installation::new("example"));
    let revision = slot
        .load(Candidate {
            module,
            pinned: None,
            config: serde_json::from_slice(&fs::read(config)?)?,
            lent: Lent {
                kubernetes: Some(std::sync::Arc::new(cluster::Cluster::default())),
                ..Lent::default()
            },
            grants: Value::Null,
            limits: Limits::default(),
            legacy: Vec::new(),
        })
        .await?;
    println!("{} {} serves {:?}", revision.description().name, revision.id(), revision.places());
    for place in revision.places() {
        println!("{place}: {:?}", revision.check(place).await?);
    }
    Ok(())
}
