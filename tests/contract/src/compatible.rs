//! Within a line a component that was built against an older version must still load.
//!
//! wit-component's check says whether such a component would fit into the host of today: more imports are
//! fine, another type is not. What it lets pass, and we don't: an export that today's host no longer asks
//! for, since a newer component may then run in an older host of the same line.

use std::path::Path;

use anyhow::Context;
use wit_parser::{PackageId, Resolve, WorldId, WorldItem};

use crate::{line, released, version};

/// What a component of the newest release in the current line would not survive.
pub fn faults(wit: &Path) -> anyhow::Result<Vec<String>> {
    let current = version(wit)?;
    let released = released::versions(wit)?;
    // The same version is not compared: its files are the same, or `released::faults` says so.
    let before = released.into_iter().rfind(|version| *version < current && line(version) == line(&current));
    let Some(before) = before else { return Ok(Vec::new()) };
    between(&wit.join("released").join(before.to_string()), wit)
}

/// What a component built against `old` would not survive in a host that serves `new`.
pub fn between(old: &Path, new: &Path) -> anyhow::Result<Vec<String>> {
    let mut resolve = Resolve::default();
    let (old_package, _) = resolve.push_dir(old)?;
    let (new_package, _) = resolve.push_dir(new)?;
    let (before, after) = (version(old)?, version(new)?);
    let worlds = &resolve.packages.get(old_package).context("the package was just read")?.worlds;
    let mut faults = Vec::new();
    for (name, old_world) in worlds {
        let Some(new_world) = world(&resolve, new_package, name) else {
            faults.push(format!("world {name} of {before} is gone in {after}"));
            continue;
        };
        if let Err(error) = wit_component::semver_check(resolve.clone(), *old_world, new_world) {
            faults.push(format!(
                "world {name}: a component of {before} does not fit {after}, which is of the same line: \
                 {error:#}. Put it back, or begin a new line"
            ));
        }
        let now = exports(&resolve, new_world);
        for export in exports(&resolve, *old_world).iter().filter(|export| !now.contains(export)) {
            faults.push(format!(
                "world {name}: {export} is exported in {before} and not in {after}, which is of the same line"
            ));
        }
    }
    Ok(faults)
}

fn world(resolve: &Resolve, package: PackageId, name: &str) -> Option<WorldId> {
    resolve.packages.get(package)?.worlds.get(name).copied()
}

/// `provider.create` and the like.
fn exports(resolve: &Resolve, world: WorldId) -> Vec<String> {
    let items = resolve.worlds.get(world).map(|world| world.exports.values()).into_iter().flatten();
    let mut found = Vec::new();
    for item in items {
        match item {
            WorldItem::Interface { id, .. } => {
                let Some(interface) = resolve.interfaces.get(*id) else { continue };
                let name = interface.name.as_deref().unwrap_or_default();
                found.extend(interface.functions.keys().map(|function| format!("{name}.{function}")));
            }
            WorldItem::Function(function) => found.push(function.name.clone()),
            WorldItem::Type { .. } => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{copy, edit, raise, wit};

    /// The faults of one edit, made a patch version after a release.
    fn after(file: &str, from: &str, to: &str) -> String {
        let folder = copy();
        raise(folder.path(), "0.1.0");
        released::record(folder.path()).unwrap();
        raise(folder.path(), "0.1.1");
        edit(folder.path(), file, from, to);
        faults(folder.path()).unwrap().join("\n")
    }

    #[test]
    fn the_contract_is_compatible_with_the_newest_release_of_its_line() {
        let faults = faults(&wit()).unwrap();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn an_import_may_gain_a_function_and_the_line_a_world() {
        assert_eq!(after("clock.wit", "now-ms: func", "now-us: func() -> u64;\n    now-ms: func"), "");
        assert_eq!(after("worlds.wit", "world base {", "world other { include base; }\nworld base {"), "");
    }

    #[test]
    fn a_record_a_variant_and_a_function_can_not_change() {
        for (file, from, to) in [
            ("types.wit", "details: json,\n", "details: json,\n        more: string,\n"),
            ("types.wit", "        transient,\n", "        transient,\n        fatal,\n"),
            ("http.wit", "send: func(request: request)", "send: func(request: request, more: bool)"),
            ("clock.wit", "now-ms: func() -> u64;", "now-us: func() -> u64;"),
        ] {
            let found = after(file, from, to);
            assert!(found.contains("does not fit 0.1.1"), "{file}: {to:?} passed: {found:?}");
        }
    }

    #[test]
    fn an_export_can_neither_come_nor_go() {
        let come = after("provider.wit", "check: func", "more: func();\n    check: func");
        assert!(come.contains("does not fit 0.1.1"), "{come:?}");
        let go = after("provider.wit", "check: func(place: string) -> health;", "");
        assert!(go.contains("provider.check is exported in 0.1.0 and not in 0.1.1"), "{go:?}");
    }

    #[test]
    fn a_new_line_may_change_anything() {
        let folder = copy();
        raise(folder.path(), "0.1.0");
        released::record(folder.path()).unwrap();
        raise(folder.path(), "0.2.0");
        edit(folder.path(), "clock.wit", "now-ms: func() -> u64;", "now: func() -> u64;");
        assert_eq!(faults(folder.path()).unwrap(), [""; 0]);
    }
}
