//! Every item says what it is, and every import what it does to a backend.
//!
//! The effect is not decoration: a candidate provider is run beside the active one with every writing call
//! denied, so a call without an effect, or with two, could not be judged.

use std::{collections::BTreeSet, path::Path};

use wit_parser::{Function, Resolve, TypeDefKind, WorldItem};

/// What an effect may be, and what `http.send` says, whose effect depends on the request.
const EFFECTS: [&str; 2] = ["read.", "write."];
const EFFECT_OF_SEND: &str = "read for GET, HEAD and what the grant lists as read-only; else write.";

/// What is not documented, and which imports have not exactly one effect.
pub fn faults(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(folder)?;
    let mut faults = Vec::new();
    let mut imported = BTreeSet::new();
    let mut exported = BTreeSet::new();
    for (_, world) in resolve.worlds.iter().filter(|(_, world)| world.package == Some(package)) {
        missing(&mut faults, &format!("world {}", world.name), world.docs.contents.as_deref());
        imported.extend(world.imports.values().filter_map(|item| interface_name(&resolve, item)));
        exported.extend(world.exports.values().filter_map(|item| interface_name(&resolve, item)));
    }
    for (_, interface) in resolve.interfaces.iter().filter(|(_, i)| i.package == Some(package)) {
        let name = interface.name.as_deref().unwrap_or_default();
        missing(&mut faults, &format!("interface {name}"), interface.docs.contents.as_deref());
        for (type_name, id) in &interface.types {
            let Some(definition) = resolve.types.get(*id) else { continue };
            // `use other.{this}` and a resource's handles are documented where they were declared.
            let used = matches!(definition.kind, TypeDefKind::Type(wit_parser::Type::Id(_)))
                || matches!(definition.kind, TypeDefKind::Handle(_));
            if !used {
                missing(
                    &mut faults,
                    &format!("type {name}.{type_name}"),
                    definition.docs.contents.as_deref(),
                );
            }
        }
        for function in interface.functions.values() {
            let place = format!("function {name}.{}", function.name);
            missing(&mut faults, &place, function.docs.contents.as_deref());
            // An interface that is only exported has no effect of its own: the imports it calls have.
            if imported.contains(name) {
                effect(&mut faults, &place, function);
            } else if !exported.contains(name) {
                faults.push(format!("{place} stands in no world: nobody can call it"));
            }
        }
    }
    Ok(faults)
}

fn missing(faults: &mut Vec<String>, place: &str, docs: Option<&str>) {
    let says = |docs: &str| docs.lines().any(|line| !line.trim().is_empty() && !line.starts_with("Effect:"));
    if !docs.is_some_and(says) {
        faults.push(format!("{place} has no documentation: say what it is, above it, after `///`"));
    }
}

fn effect(faults: &mut Vec<String>, place: &str, function: &Function) {
    let docs = function.docs.contents.as_deref().unwrap_or_default();
    let effects: Vec<&str> = docs.lines().filter_map(|line| line.trim().strip_prefix("Effect: ")).collect();
    match effects.as_slice() {
        [one] if EFFECTS.contains(one) => {}
        [EFFECT_OF_SEND] if place == "function http.send" => {}
        [one] => faults.push(format!("{place} has the effect {one:?}; there are {EFFECTS:?}")),
        several => faults.push(format!("{place} has {} lines `Effect: `; it needs one", several.len())),
    }
}

fn interface_name<'a>(resolve: &'a Resolve, item: &WorldItem) -> Option<&'a str> {
    match item {
        WorldItem::Interface { id, .. } => resolve.interfaces.get(*id)?.name.as_deref(),
        WorldItem::Function(_) | WorldItem::Type { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::faults;
    use crate::tests::{copy, edit, wit};

    #[test]
    fn the_contract_is_documented_and_every_import_has_one_effect() {
        let faults = faults(&wit()).unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn an_item_that_nobody_explained_is_named() {
        let folder = copy();
        let undocumented = "interface clock {\n    record tick { at: u64 }\n\n";
        edit(folder.path(), "clock.wit", "interface clock {\n", undocumented);
        edit(folder.path(), "locks.wit", "    /// Held as long as it lives.\n", "");
        // An effect alone says nothing of what a function is.
        edit(folder.path(), "clock.wit", "    /// Wall time in milliseconds since 1970 UTC.\n    ///\n", "");
        let found = faults(folder.path()).unwrap().join("\n");
        for place in ["type clock.tick", "type locks.lock", "function clock.now-ms"] {
            assert!(found.contains(&format!("{place} has no documentation")), "{place}: {found}");
        }
    }

    #[test]
    fn an_import_without_an_effect_or_with_two_is_named() {
        let folder = copy();
        edit(folder.path(), "context.wit", "    /// Effect: read.\n    config", "    config");
        edit(folder.path(), "clock.wit", "/// Effect: read.", "/// Effect: read.\n    /// Effect: write.");
        edit(folder.path(), "libvirt.wit", "/// Effect: write.", "/// Effect: perhaps.");
        let found = faults(folder.path()).unwrap().join("\n");
        assert!(found.contains("context.config has 0 lines"), "{found}");
        assert!(found.contains("clock.now-ms has 2 lines"), "{found}");
        assert!(found.contains("has the effect \"perhaps.\""), "{found}");
    }

    #[test]
    fn an_interface_that_no_world_holds_is_named() {
        let folder = copy();
        edit(folder.path(), "worlds.wit", "    import locks;\n", "");
        let found = faults(folder.path()).unwrap().join("\n");
        assert!(found.contains("locks") && found.contains("stands in no world"), "{found}");
    }
}
