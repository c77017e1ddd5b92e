//! Freezes the contract as it stands in `wit/`: copies its files to `wit/released/VERSION/` and records their
//! digests. From then on the tests of this crate refuse any change to them.

use std::path::Path;

fn main() -> anyhow::Result<()> {
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
    let version = contract_tests::released::record(&wit)?;
    let digest = contract_tests::released::digest(&wit, &version)?;
    println!(
        "egress:provider@{version} is recorded in wit/released/: tell it in CHANGELOG.md, digest {digest}"
    );
    Ok(())
}
