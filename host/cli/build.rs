//! Puts what `epo provider new` writes into the binary: the templates, and the SDK and the WIT as they stand
//! in this tree, so that a project's copies are those of the host that checks it.

use std::{
    env,
    error::Error,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

fn main() -> Result<(), Box<dyn Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let mut table = String::from("pub static FILES: &[(&str, &str)] = &[\n");
    for (name, dir) in [
        ("templates", here.join("templates")),
        ("wit", here.join("../../wit")),
        ("sdk", here.join("../../providers/sdk")),
    ] {
        println!("cargo::rerun-if-changed={}", dir.display());
        put(name, &dir, &mut table)?;
    }
    // The SDK is formatted by this tree's rules, wherever it stands.
    let format = here.join("../../rustfmt.toml");
    println!("cargo::rerun-if-changed={}", format.display());
    put_file("sdk/rustfmt.toml", &format, &mut table)?;
    table.push_str("];\n");
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("embedded.rs"), table)?;
    Ok(())
}

fn put(name: &str, dir: &Path, table: &mut String) -> Result<(), Box<dyn Error>> {
    let mut found: Vec<_> = fs::read_dir(dir)?.collect::<Result<_, _>>()?;
    found.sort_by_key(fs::DirEntry::file_name);
    for entry in found {
        let file = entry.file_name().into_string().map_err(|name| format!("{name:?} is no UTF-8"))?;
        // A project is made for one version of the contract.
        if name == "wit" && file == "released" {
            continue;
        }
        let name = format!("{name}/{file}");
        if entry.file_type()?.is_dir() {
            put(&name, &entry.path(), table)?;
        } else {
            put_file(&name, &entry.path(), table)?;
        }
    }
    Ok(())
}

fn put_file(name: &str, path: &Path, table: &mut String) -> Result<(), Box<dyn Error>> {
    writeln!(table, "    ({name:?}, include_str!({:?})),", path.canonicalize()?)?;
    Ok(())
}
