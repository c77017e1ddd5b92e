//! What is printed: tables for people, JSON and YAML for programs.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use clap::ValueEnum;
use serde::Serialize;

use crate::failure::Failure;

/// How data is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
    /// For programs and people
    Yaml,
}

/// How a tool's findings are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum TextOrJson {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

impl From<TextOrJson> for Format {
    fn from(format: TextOrJson) -> Self {
        match format {
            TextOrJson::Text => Self::Table,
            TextOrJson::Json => Self::Json,
        }
    }
}

/// Prints the data, or what `table` makes of it.
pub fn print_as<T: Serialize>(
    format: Format,
    data: &T,
    table: impl FnOnce(&T) -> String,
) -> Result<(), Failure> {
    let text = match format {
        Format::Table => table(data),
        Format::Json => {
            serde_json::to_string_pretty(data).map_err(|error| Failure::Render(error.to_string()))? + "\n"
        }
        Format::Yaml => yaml(data)?,
    };
    print(text.as_bytes())
}

/// One document, ending in a new line.
pub fn yaml<T: Serialize>(data: &T) -> Result<String, Failure> {
    let text = serde_saphyr::to_string(data).map_err(|error| Failure::Render(error.to_string()))?;
    Ok(if text.ends_with('\n') { text } else { text + "\n" })
}

/// Writes to the standard output; a reader that went away is an error here and no panic.
pub fn print(text: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text).and_then(|()| out.flush()).map_err(Failure::Output)
}

/// Writes a file whole or not at all: what stood there stays until the new one is complete.
pub fn replace(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Failure> {
    let failed = |source| Failure::Write { path: path.to_owned(), source };
    let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::IsADirectory.into()))?;
    let aside = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let written = File::create_new(&aside).and_then(|mut file| {
        fill(&mut file)?;
        file.sync_all()?;
        fs::rename(&aside, path)
    });
    written.map_err(|error| {
        // Nobody is left to tell when this fails.
        let _ = fs::remove_file(&aside);
        failed(error)
    })
}

/// To whoever looks on, and to no pipe.
pub fn tell(line: &str) {
    // Nobody is left to tell when this fails.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Columns as wide as their widest cell, two spaces between, nothing after the last.
pub fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// A path that can be pasted into a shell.
pub fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// A size for people: `61.4 KiB`.
pub fn bytes(size: u64) -> String {
    const KIB: u64 = 1024;
    // In tenths, by whole numbers: a size of some megabytes needs no floating point.
    let tenths = |unit: u64| format!("{}.{}", size / unit, size % unit * 10 / unit);
    match size {
        0..KIB => format!("{size} bytes"),
        KIB..0x10_0000 => format!("{} KiB", tenths(KIB)),
        _ => format!("{} MiB", tenths(KIB * KIB)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_end_without_spaces() {
        let rows = [["a".to_owned(), "bb".to_owned()], ["aaa".to_owned(), "b".to_owned()]];
        assert_eq!(columns(&rows), "a    bb\naaa  b\n");
    }

    #[test]
    fn sizes_read_as_people_say_them() {
        let said = [0, 1023, 1024, 1_048_575, 1_048_576, 1_600_000].map(bytes);
        assert_eq!(said, ["0 bytes", "1023 bytes", "1.0 KiB", "1023.9 KiB", "1.0 MiB", "1.5 MiB"]);
    }
}
