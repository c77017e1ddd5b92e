//! `epo provider bench`: what a component's calls cost.
//!
//! The backend is simulated and answers at once, and its time is virtual; so what is measured is the component,
//! and what the host does for its calls. Two components take turns, so that what disturbs one disturbs the other.

mod figures;
mod usage;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use egress_contract::Installation;
use egress_runtime::{Runtime, RuntimeConfig, Slot};
use serde::Serialize;

use super::{
    ComponentFile,
    entry::{EntryFile, Subject},
    life::Lives,
    nothing,
};
use crate::{
    failure::Failure,
    output::{self, TextOrJson},
    setup,
};
use figures::{Figure, Samples};
use usage::Usage;

/// Compiles, of which the median counts.
const COMPILES: usize = 3;
/// Lives that only warm up.
const WARM_UP: u32 = 3;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  epo provider bench mine.wasm
  # is the new build any worse?
  epo provider bench old.wasm new.wasm --rounds 500

Each round is one instance's life: check, create until done, get until it runs, list, delete until done. A call's
time is the component's and the host's; `computes` is what the component took of it. Memory is the most that a call's
linear memories had. Backends and networks cost more than all of this: the host calls say how often they are asked.

Exit codes:
  0  measured
  2  could not run: usage, a file, the component, or it fails at the simulated backend")]
pub struct Bench {
    /// The component, and one to compare it with: plain, gzip or zstd
    #[arg(value_name = "FILE", required = true, num_args = 1..=2)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    entry: EntryFile,
    /// Instances' lives to measure
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// Decides whatever the simulated backend draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How the figures are printed
    #[arg(short, long, value_enum, default_value_t)]
    output: TextOrJson,
}

/// One component under measurement.
struct Measured {
    file: ComponentFile,
    subject: Subject,
    lives: Lives,
    compile: Vec<Duration>,
    samples: Samples,
}

/// What is printed; the names are those of the JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    rounds: u32,
    /// Of a debug build the figures are only good beside each other.
    optimised: bool,
    components: Vec<Component>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Component {
    file: String,
    name: String,
    version: String,
    digest: String,
    figures: Vec<Figure>,
}

impl Bench {
    pub fn run(self) -> Result<(), Failure> {
        setup::block_on(self.measure()).map_err(Failure::could_not_run)
    }

    async fn measure(self) -> Result<(), Failure> {
        let usage = Usage::collect()?;
        let mut measured = Vec::new();
        for path in &self.files {
            measured.push(self.open(ComponentFile::new(path.clone())).await?);
        }
        for round in 1..=self.rounds.saturating_add(WARM_UP) {
            for one in &mut measured {
                let Measured { lives, samples, .. } = one;
                usage.take();
                if round <= WARM_UP {
                    lives.live(round, |_| {}).await?;
                } else {
                    lives.live(round, |step| samples.add(&step, usage.take())).await?;
                    samples.live();
                }
            }
        }
        let components = measured.into_iter().map(Measured::component).collect::<Result<_, _>>()?;
        let report = Report { rounds: self.rounds, optimised: !cfg!(debug_assertions), components };
        output::print_as(self.output.into(), &report, Report::table)
    }

    async fn open(&self, file: ComponentFile) -> Result<Measured, Failure> {
        let compile = compile(&file).await?;
        let runtime = super::runtime()?;
        let subject = Subject::open(&runtime, &file, &self.entry).await?;
        let lives = Lives::open(runtime, &file, &subject, self.seed).await?;
        Ok(Measured { file, subject, lives, compile, samples: Samples::default() })
    }
}

/// How long a load takes that finds nothing compiled, less one that does.
async fn compile(file: &ComponentFile) -> Result<Vec<Duration>, Failure> {
    let module = file.module()?;
    let mut compiles = Vec::new();
    for _ in 0..COMPILES {
        let runtime = Runtime::new(RuntimeConfig::default())?;
        let slot = Slot::new(runtime, nothing::entry()?, Installation::new("bench"));
        let mut times = [Duration::ZERO; 2];
        let mut kept = Vec::new();
        for time in &mut times {
            let before = Instant::now();
            let described = slot.described(nothing::candidate(module.clone())).await;
            *time = before.elapsed();
            kept.push(described.map_err(|refusal| file.refused(refusal))?);
        }
        let [cold, warm] = times;
        compiles.push(cold.saturating_sub(warm));
    }
    Ok(compiles)
}

impl Measured {
    fn component(self) -> Result<Component, Failure> {
        let bytes = self.subject.module.bytes();
        let packed = zstd::encode_all(&bytes[..], 19).map_err(|error| Failure::Render(error.to_string()))?;
        let mut figures = vec![
            Figure::bytes("size", bytes.len() as u64),
            Figure::bytes("size, packed with zstd", packed.len() as u64),
            Figure::time("compile", figures::median(&self.compile)),
        ];
        figures.extend(self.samples.figures());
        let description = self.subject.description();
        Ok(Component {
            file: self.file.path().display().to_string(),
            name: description.name.clone(),
            version: description.version.clone(),
            digest: self.subject.module.digest().to_string(),
            figures,
        })
    }
}

impl Report {
    fn table(&self) -> String {
        let mut text = String::new();
        for component in &self.components {
            let Component { file, name, version, digest, .. } = component;
            text += &format!("{file}: {name} {version} ({digest})\n");
        }
        text += &format!("{} rounds at a simulated backend", self.rounds);
        if !self.optimised {
            text += "; this epo is built for debugging: only the comparison says something";
        }
        text += "\n\n";
        text += &match self.components.as_slice() {
            [one] => figures::table(&one.figures),
            [one, other, ..] => figures::comparison(&one.figures, &other.figures),
            [] => String::new(),
        };
        text
    }
}
