//! The figures, each beside its alternative, as a table for people and as JSON.

use std::{fs, io, path::Path};

use serde::Serialize;

/// One measured thing.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) name: String,
    /// `us`, `ms`, `KiB`, `MiB`, `ratio`.
    pub(crate) unit: &'static str,
    /// The median, or the one reading.
    pub(crate) value: f64,
    /// The 95th percentile, where there were many.
    pub(crate) p95: Option<f64>,
    /// How many readings.
    pub(crate) samples: usize,
    /// What is aimed at, where something is.
    pub(crate) at_most: Option<f64>,
}

/// All of a run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    figures: Vec<Figure>,
}

impl Report {
    /// Many readings: the median counts.
    pub(crate) fn samples(&mut self, name: &'static str, unit: &'static str, mut readings: Vec<f64>) -> f64 {
        readings.sort_by(f64::total_cmp);
        let at =
            |share: usize| readings.get((readings.len() * share / 100).min(readings.len().saturating_sub(1)));
        let value = at(50).copied().unwrap_or(f64::NAN);
        let p95 = at(95).copied();
        let samples = readings.len();
        self.figures.push(Figure { name: name.to_owned(), unit, value, p95, samples, at_most: None });
        value
    }

    /// One reading, or what follows from others.
    pub(crate) fn figure(&mut self, name: &str, unit: &'static str, value: f64, at_most: Option<f64>) {
        // The table comes at the end, and a long run may not come so far.
        eprintln!("bench: {name}: {value:.4} {unit}");
        let name = name.to_owned();
        self.figures.push(Figure { name, unit, value, p95: None, samples: 1, at_most });
    }

    /// Prints the table.
    pub(crate) fn print(&self) {
        println!("{:<62} {:>11} {:>11} {:>8}  unit", "figure", "median", "p95", "aim");
        for figure in &self.figures {
            let p95 = figure.p95.map(|p95| format!("{p95:.1}")).unwrap_or_default();
            let aim = figure.at_most.map(|aim| format!("<= {aim}")).unwrap_or_default();
            println!("{:<62} {:>11.1} {p95:>11} {aim:>8}  {}", figure.name, figure.value, figure.unit);
        }
    }

    /// Writes the JSON.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, serde_json::to_vec_pretty(self)?)
    }
}
