//! What a module is, found out before anything of it is compiled or run.
//!
//! A compiler costs seconds and a link error speaks in types; a validator costs milliseconds, and here it
//! can still be said in words what somebody put there instead of a provider.

use egress_contract::CONTRACT_VERSION;
use wasmparser::{Parser, Validator, WasmFeatures, component_types::ComponentEntityType};

use crate::{
    outline::{Made, Outline},
    refusal::{Refusal, Stage},
};

/// The contract's lines that this host serves.
pub const SERVED_CONTRACTS: &[&str] = &[CONTRACT_VERSION];

/// Everything of the contract's package.
const PACKAGE: &str = "egress:provider/";
/// What a provider exports, its version apart.
const PROVIDER: &str = "egress:provider/provider";
/// Types are no capability: nothing is lent with them.
const TYPES: &str = "egress:provider/types";
/// What the export must hold.
const FUNCTIONS: [&str; 7] = ["describe", "configure", "create", "get", "delete", "list", "check"];
/// Instances that a component may make of components; a component of ours makes two or three.
const MOST_COMPONENT_INSTANCES: u64 = 10_000;

/// What is known of a component without running it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The version of the contract that it was built against: `0.1.0`.
    pub contract: String,
    /// The interfaces that it asks for, as `egress:provider/kubernetes@0.1.0`.
    pub imports: Vec<String>,
    /// What it offers.
    pub exports: Vec<String>,
    /// Core instances that one instantiation makes.
    pub core_instances: u64,
}

/// Says what these bytes are, or why they are no provider for this host.
pub fn inspect(bytes: &[u8]) -> Result<Inspection, Refusal> {
    header(bytes)?;
    // Async lifting and shared memory are off in the engine as well.
    let features = WasmFeatures::default() - WasmFeatures::CM_ASYNC - WasmFeatures::THREADS;
    let types =
        Validator::new_with_features(features).validate_all(bytes).map_err(|error| invalid(bytes, &error))?;
    let outline = Outline::read(bytes).map_err(|error| invalid(bytes, &error))?;
    let Made { core, components } = outline.made;
    if components > MOST_COMPONENT_INSTANCES {
        return Err(refuse(
            "Invalid",
            format!(
                "the component makes {components} instances of the components in it; no provider needs more \
                 than {MOST_COMPONENT_INSTANCES}: build it again without them"
            ),
        ));
    }
    let (name, contract) = provider_export(&outline.exports)?;
    let types = types.as_ref();
    let functions: Vec<&str> = match types.component_item_for_export(name).map(|item| item.ty) {
        Some(ComponentEntityType::Instance(id)) => {
            types.get(id).map(|instance| instance.exports.keys().map(String::as_str).collect())
        }
        _ => None,
    }
    .unwrap_or_default();
    let missing: Vec<&str> = FUNCTIONS.into_iter().filter(|function| !functions.contains(function)).collect();
    if !missing.is_empty() {
        return Err(refuse(
            "ExportMissing",
            format!(
                "{name} lacks {}; build the component against the contract {contract} as it stands in wit/",
                missing.join(", ")
            ),
        ));
    }
    Ok(Inspection {
        contract,
        imports: outline.imports.into_iter().filter(|import| base(import) != TYPES).collect(),
        exports: outline.exports,
        core_instances: core,
    })
}

/// `(name without version, version)` of an interface.
pub(crate) fn split(interface: &str) -> (&str, Option<&str>) {
    match interface.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (interface, None),
    }
}

fn base(interface: &str) -> &str {
    split(interface).0
}

/// Whether a component built against one version finds what it needs in the other.
pub(crate) fn same_line(version: &str, served: &str) -> bool {
    match (numbers(version), numbers(served)) {
        (Some([0, minor, _]), Some([0, served, _])) => minor == served,
        (Some([major, ..]), Some([served, ..])) => major == served && major != 0,
        _ => false,
    }
}

/// `1.2.3`, or none.
pub(crate) fn numbers(version: &str) -> Option<[u64; 3]> {
    let mut parts = version.split('.').map(str::parse);
    let mut next = || parts.next()?.ok();
    let numbers = [next()?, next()?, next()?];
    next().is_none().then_some(numbers)
}

fn refuse(reason: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::new(Stage::Parse, reason, message)
}

fn invalid(bytes: &[u8], error: &wasmparser::BinaryReaderError) -> Refusal {
    // Toolchains that can build for both, and choose the other one, are common.
    if Validator::new_with_features(WasmFeatures::default()).validate_all(bytes).is_ok() {
        return refuse(
            "Async",
            format!(
                "the component is built for asynchronous calls or shared memory, and the contract has neither \
                 ({error}); build it for synchronous calls, as with --sync of componentize-qjs"
            ),
        );
    }
    refuse(
        "Invalid",
        format!("the component is damaged or cut off: {error}; build it again, or copy it again, whole"),
    )
}

fn header(bytes: &[u8]) -> Result<(), Refusal> {
    const WAY_OUT: &str = "load what `epo provider build` writes";
    if !bytes.starts_with(b"\0asm") {
        return Err(refuse(
            "NotWasm",
            format!("the module is not WebAssembly (its first bytes are not \\0asm); {WAY_OUT}"),
        ));
    }
    if Parser::is_component(bytes) {
        return Ok(());
    }
    if Parser::is_core_wasm(bytes) {
        return Err(refuse(
            "NotAComponent",
            format!("the module is a core WebAssembly module, not a component; {WAY_OUT}"),
        ));
    }
    Err(refuse(
        "UnknownEncoding",
        format!("the module is WebAssembly of a version that this host does not know; {WAY_OUT}"),
    ))
}

fn provider_export(exports: &[String]) -> Result<(&str, String), Refusal> {
    let offered: Vec<(&str, &str)> = exports
        .iter()
        .filter_map(|export| match split(export) {
            (PROVIDER, version) => Some((export.as_str(), version.unwrap_or_default())),
            _ => None,
        })
        .collect();
    let served = |version: &str| SERVED_CONTRACTS.iter().any(|served| same_line(version, served));
    if let Some((name, version)) = offered.iter().find(|(_, version)| served(version)) {
        return Ok((name, (*version).to_owned()));
    }
    let hosts = SERVED_CONTRACTS.join(", ");
    match offered.first() {
        Some((_, version)) => Err(refuse(
            "ContractVersion",
            format!(
                "the component was built against the contract {version}; this host serves {hosts}: build the \
                 component against one of these, or run an operator that serves {version}"
            ),
        )),
        None => Err(refuse(
            "NoProvider",
            format!(
                "the component exports no {PROVIDER} (it exports {}); build it against a world of wit/, \
                 contract {hosts}",
                if exports.is_empty() { "nothing".to_owned() } else { exports.join(", ") }
            ),
        )),
    }
}

/// Whether the contract's package names it: then a missing one is a question of grants or versions.
pub(crate) fn is_ours(interface: &str) -> bool {
    interface.starts_with(PACKAGE)
}
