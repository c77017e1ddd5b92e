//! Provider entries as people write them: the providers ConfigMap, one key an entry.
//!
//! A fault in one entry harms only that entry, and all its faults are told at once, each with its path:
//! whoever mends one at a time at night meets the next one only after the next reload.

mod faults;
mod grants;
mod health;
mod module;
mod reference;
mod settings;
mod swap;

use std::collections::BTreeMap;

use egress_contract::{EntryName, Fault};
use egress_runtime::{Digest, Limits};
use serde_json::{Map, Value};

use self::{faults::Faults, settings::empty_object};
pub use self::{
    grants::Grants,
    module::{ModuleRef, OciImage},
    reference::schema,
    settings::Settings,
    swap::SwapConfig,
};
use crate::{collecting::CollectConfig, core::budget::ReplaceConfig, core::probe::HealthConfig};

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryConfig {
    /// Where the component is read from.
    pub module: ModuleRef,
    /// What it must hash to, if the entry says so.
    pub pinned: Option<Digest>,
    /// How what nobody owns is collected.
    pub collect: CollectConfig,
    /// How instances are replaced.
    pub replace: ReplaceConfig,
    /// How Proxies are probed, if they are.
    pub health: Option<HealthConfig>,
    /// How something new is taken up.
    pub swap: SwapConfig,
    /// What stays the same when an earlier revision runs again.
    pub settings: Settings,
}

/// An entry that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidEntry {
    /// Stable: `EntryUnreadable`, `EntryInvalid`, `EntryTwice`.
    pub reason: &'static str,
    /// The thing, the cause, the way out.
    pub message: String,
    /// Everything that is wrong with it.
    pub faults: Vec<Fault>,
}

/// What the providers ConfigMap says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderEntries {
    /// Each by its name.
    pub entries: BTreeMap<EntryName, Result<EntryConfig, InvalidEntry>>,
    /// Keys that can't name an entry, each with the reason.
    pub unnamed: Vec<String>,
}

/// Reads every key of the ConfigMap's `data`.
pub fn read_entries<'a>(data: impl IntoIterator<Item = (&'a String, &'a String)>) -> ProviderEntries {
    let mut found = ProviderEntries::default();
    for (key, text) in data {
        let entry = match entry_name(key) {
            Ok(entry) => entry,
            Err(message) => {
                found.unnamed.push(message);
                continue;
            }
        };
        let read = read_entry(&entry, text);
        if found.entries.insert(entry.clone(), read).is_some() {
            let message = format!("entry {entry} stands there twice; remove one of its keys");
            let twice = InvalidEntry { reason: "EntryTwice", message, faults: Vec::new() };
            found.entries.insert(entry, Err(twice));
        }
    }
    found
}

/// A key is the entry's name, with or without `.yaml`.
fn entry_name(key: &str) -> Result<EntryName, String> {
    let name = key.strip_suffix(".yaml").or_else(|| key.strip_suffix(".yml")).unwrap_or(key);
    if name.starts_with('-') || name.ends_with('-') {
        // Resources and labels are named after it, and theirs may not.
        return Err(format!(
            "key {key:?}: an entry's name begins and ends with a letter or digit; rename it"
        ));
    }
    name.parse().map_err(|error| format!("key {key:?}: {error}; rename it"))
}

/// Reads one entry, or tells everything that is wrong with it.
pub fn read_entry(entry: &EntryName, text: &str) -> Result<EntryConfig, InvalidEntry> {
    let document: Value = serde_saphyr::from_str(text).map_err(|error| InvalidEntry {
        reason: "EntryUnreadable",
        message: format!("entry {entry} is not YAML: {}; mend it", error.without_snippet()),
        faults: Vec::new(),
    })?;
    let mut faults = Faults::default();
    let read = read_document(document, &mut faults);
    match (read, faults.0) {
        (Some(config), faults) if faults.is_empty() => Ok(config),
        (_, faults) => Err(InvalidEntry {
            reason: "EntryInvalid",
            message: match faults.as_slice() {
                [only] => format!("entry {entry}: {only}"),
                _ => format!("entry {entry} has {} faults; mend each of them", faults.len()),
            },
            faults,
        }),
    }
}

/// None only together with a fault.
fn read_document(document: Value, faults: &mut Faults) -> Option<EntryConfig> {
    let Value::Object(mut fields) = document else {
        faults.add(
            "",
            "must be a mapping with module, and where needed config, grants, limits, collect, replace, health, shadow, \
             rollout, simulated, legacyMarks",
        );
        return None;
    };
    let module = module::read(fields.remove("module"), faults);
    let config = fields.remove("config").unwrap_or_else(empty_object);
    if !config.is_object() {
        faults.add("config", "must be a mapping");
    }
    let grants: Option<Grants> = faults.read("grants", fields.remove("grants"));
    if let Some(grants) = &grants {
        grants.check(faults);
    }
    let limits = read_limits(fields.remove("limits"), faults);
    let legacy_marks: Option<Vec<BTreeMap<String, String>>> =
        faults.read("legacyMarks", fields.remove("legacyMarks"));
    for (index, mark) in legacy_marks.iter().flatten().enumerate() {
        if mark.is_empty() {
            faults.add(&format!("legacyMarks[{index}]"), "is empty, so that everything would bear it");
        }
    }
    let simulated: Option<bool> = faults.read("simulated", fields.remove("simulated"));
    let collect: Option<CollectConfig> = faults.read("collect", fields.remove("collect"));
    if collect.as_ref().is_some_and(|collect| collect.interval_seconds == 0) {
        faults.add("collect.intervalSeconds", "must be at least 1");
    }
    let replace: Option<ReplaceConfig> = faults.read("replace", fields.remove("replace"));
    for (name, value) in replace.iter().flat_map(|r| [("atOnce", r.at_once), ("perHour", r.per_hour)]) {
        if !(1..=100).contains(&value) {
            faults.add(&format!("replace.{name}"), "must be from 1 to 100");
        }
    }
    let health = health::read(&mut fields, faults);
    let swap = swap::read(&mut fields, faults);
    for unknown in fields.keys() {
        faults.add(
            unknown,
            "is not known; an entry has module, config, grants, limits, collect, replace, health, shadow, rollout, simulated and legacyMarks",
        );
    }
    let (module, pinned) = module?;
    let settings = Settings {
        config,
        grants: grants?,
        limits: limits?,
        simulated: simulated?,
        legacy_marks: legacy_marks?,
    };
    Some(EntryConfig {
        module,
        pinned,
        collect: collect?,
        replace: replace?,
        health: health?,
        swap: swap?,
        settings,
    })
}

/// Field by field, so that every fault is told and not only the first.
fn read_limits(limits: Option<Value>, faults: &mut Faults) -> Option<Limits> {
    let Some(Value::Object(fields)) = limits else {
        return faults.read("limits", limits);
    };
    let before = faults.0.len();
    for (name, value) in &fields {
        let path = format!("limits.{name}");
        // Zero log lines is a wish; zero of anything else could never work.
        if value.as_u64() == Some(0) && name != "logLines" {
            faults.add(&path, "must be at least 1");
        }
        let alone = Value::Object(Map::from_iter([(name.clone(), value.clone())]));
        if let Err(error) = serde_json::from_value::<Limits>(alone) {
            faults.add(&path, error);
        }
    }
    if faults.0.len() > before {
        return None;
    }
    faults.read("limits", Some(Value::Object(fields)))
}

#[cfg(test)]
mod tests {
    use egress_runtime::Shadow;

    use super::*;

    fn entry() -> EntryName {
        "kubernetes".parse().unwrap()
    }

    fn faults(text: &str) -> Vec<String> {
        let refused = read_entry(&entry(), text).unwrap_err();
        refused.faults.iter().map(ToString::to_string).collect()
    }

    const WHOLE: &str = r#"
module:
  configMap: { name: kubernetes-provider, key: module.wasm.zst }
  digest: "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
config:
  cluster: home
  namespaces: [proxies]
grants:
  kubernetes:
    clusters:
      home:
        operator: true
        serviceAccount: { namespace: proxies, name: squid }
        rules:
          - { resources: [pods], verbs: [get, list, create, delete], namespaces: [proxies] }
limits:
  memoryBytes: 33554432
legacyMarks:
  - { app: squid, managed-by: egress }
"#;

    #[test]
    fn a_whole_entry_is_read() {
        let read = read_entry(&entry(), WHOLE).unwrap();
        assert_eq!(
            read.module,
            ModuleRef::ConfigMap {
                namespace: None,
                name: "kubernetes-provider".to_owned(),
                key: Some("module.wasm.zst".to_owned())
            }
        );
        assert!(read.pinned.is_some());
        assert_eq!(read.settings.config["namespaces"][0], "proxies");
        assert!(read.settings.grants.kubernetes.is_some());
        assert_eq!(read.settings.limits.memory_bytes, 32 << 20);
        assert_eq!(read.settings.limits.get_ms, Limits::default().get_ms);
        assert_eq!(read.settings.legacy()[0][0], ("app".to_owned(), "squid".to_owned()));
    }

    #[test]
    fn settings_survive_being_stored() {
        let settings = read_entry(&entry(), WHOLE).unwrap().settings;
        let stored = serde_json::to_string(&settings).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&stored).unwrap(), settings);
    }

    #[test]
    fn the_shortest_entry_names_its_module() {
        let read = read_entry(&entry(), "module: { file: kubernetes.wasm }").unwrap();
        assert_eq!(read.module, ModuleRef::File("kubernetes.wasm".into()));
        assert_eq!(read.settings.config, serde_json::json!({}));
        assert_eq!(read.settings.limits, Limits::default());
    }

    #[test]
    fn every_fault_is_told_with_its_path() {
        let text = r#"
module: { file: ../outside.wasm, digest: "sha256:12" }
config: [a]
grants:
  kubernetes:
    clusters:
      home: { operator: true, rules: [{ resources: [pods], verbs: [watch], namespaces: [a] }] }
limits: { memoryBytes: 0, logLines: 0, getMs: soon, speed: 3 }
legacyMarks: [{}]
extra: 1
"#;
        let told = faults(text);
        let paths: Vec<&str> = told.iter().map(|f| f.split(": ").next().unwrap()).collect();
        assert_eq!(
            paths,
            [
                "module.digest",
                "module.file",
                "config",
                "grants.kubernetes.clusters.home.rules[0].verbs[0]",
                "limits.getMs",
                "limits.memoryBytes",
                "limits.speed",
                "legacyMarks[0]",
                "extra",
            ],
            "{told:#?}"
        );
    }

    #[test]
    fn a_mistyped_grant_is_told_by_its_whole_path() {
        let text = "module: {file: a}\ngrants: {kubernetes: {clusters: {home: {rules: [{verb: [get]}]}}}}";
        assert!(
            faults(text)[0].starts_with("grants.kubernetes.clusters.home.rules[0].verb: "),
            "{:?}",
            faults(text)
        );
        let text = "module: {file: a}\ngrants: {http: {endpoints: {pve: {url: 'http://pve'}}}}";
        assert!(faults(text)[0].starts_with("grants.http.endpoints.pve.url: "), "{:?}", faults(text));
        assert!(faults("module: {file: a}\ngrants: {https: {}}")[0].starts_with("grants.https: "));
    }

    #[test]
    fn an_entry_says_what_becomes_of_what_sees_less() {
        let shadow = |text: &str| {
            read_entry(&entry(), &format!("module: {{file: a}}\n{text}")).map(|read| read.swap.shadow)
        };
        assert_eq!((shadow(""), shadow("shadow: refuse")), (Ok(Shadow::Refuse), Ok(Shadow::Refuse)));
        assert_eq!(shadow("shadow: warn"), Ok(Shadow::Warn));
        assert!(shadow("shadow: never").unwrap_err().message.contains("shadow: unknown variant `never`"));
    }

    #[test]
    fn an_entry_without_a_module_or_with_two_is_refused() {
        for text in
            ["config: {}", "module: {}", "module: { file: a, configMap: { name: b } }", "", "just text"]
        {
            assert_eq!(faults(text).len(), 1, "{text}");
        }
        for text in
            ["module: { file: /etc/passwd }", "module: { file: '' }", "module: { configMap: { name: ../a } }"]
        {
            assert_eq!(faults(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn what_is_not_yaml_is_told_in_one_line() {
        for text in ["a: [", "module: {file: a}\nmodule: {file: b}", "a: b: c"] {
            let refused = read_entry(&entry(), text).unwrap_err();
            assert_eq!(refused.reason, "EntryUnreadable", "{text}");
            assert!(!refused.message.contains('\n'), "{}", refused.message);
        }
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let alias = format!("*a{}, ", level - 1).repeat(10);
            bomb.push_str(&format!("a{level}: &a{level} [{alias}]\n"));
        }
        assert_eq!(read_entry(&entry(), &bomb).unwrap_err().reason, "EntryUnreadable");
    }

    #[test]
    fn a_bad_key_leaves_the_other_entries_alone() {
        let good = "module: { file: a.wasm }".to_owned();
        let data: BTreeMap<String, String> = [
            ("good.yaml", good.clone()),
            ("other", good.clone()),
            ("Upper", good.clone()),
            ("-dash", good.clone()),
            ("twice", good.clone()),
            ("twice.yaml", good),
            ("broken", "a: [".to_owned()),
        ]
        .map(|(key, text)| (key.to_owned(), text))
        .into();
        let found = read_entries(&data);
        let ok: Vec<&str> =
            found.entries.iter().filter(|(_, read)| read.is_ok()).map(|(name, _)| name.as_str()).collect();
        assert_eq!(ok, ["good", "other"]);
        let reason = |name: &str| found.entries[&name.parse().unwrap()].as_ref().unwrap_err().reason;
        assert_eq!((reason("twice"), reason("broken")), ("EntryTwice", "EntryUnreadable"));
        assert_eq!(found.unnamed.len(), 2, "{:?}", found.unnamed);
    }
}
