//! `epo provider test`: a component against the whole contract, on a simulated backend or on a real one.

mod ending;
mod real;

use std::{
    io::Write,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use clap::ValueEnum;
use egress_conformance::{
    CannotRun, Outcome, Progress, Report, Settings, Suite, Verdict,
    kind::{self, Kind},
    promise,
};
use egress_sim::fault::Point;

use super::{
    ComponentFile,
    entry::{Backend, EntryFile, Subject},
    runtime,
};
use crate::{
    cluster::ClusterArgs,
    failure::Failure,
    output::{self, quoted},
    setup,
};
use real::Namespaces;

/// Of the points of each promise, at a real backend: each takes seconds there.
const REAL_POINTS: usize = 2;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  # the whole contract, with the first example of the component's config schema
  epo provider test mine.wasm

  # with an entry's config, grants and limits, for continuous integration
  epo provider test mine.wasm --entry entry.yaml --output junit > report.xml

  # one promise, at one point: what a failure prints to repeat it
  epo provider test mine.wasm --only cut-create-is-taken-up --cut 6:after

  # on a real cluster, in two namespaces where nobody works, at three points of each promise
  epo provider test mine.wasm --backend real --entry entry.yaml -n try-a -n try-b --points 3

The component runs as the operator would run it, against a simulated backend in virtual time:
undisturbed, with a fault at every call, with the host dying before and after every call, with
another revision taking over, with two hosts at once. No cluster is asked, and for one seed every run
is the same.

With --backend real it is the cluster of the entry's grants. The component gets what they lend; the suite
itself looks and acts there as the identity that they name, or as that of --kubeconfig and --context, which
must be allowed to change everything in the two namespaces. What it made is removed at the end, after Ctrl-C
too, and nothing else is touched.

Exit codes:
  0  every promise that applies is kept
  1  a promise is broken
  2  could not run: usage, a file, the component, a promise that could not be tried")]
pub struct Test {
    #[command(flatten)]
    file: ComponentFile,
    #[command(flatten)]
    entry: EntryFile,
    /// What stands behind the capabilities
    #[arg(long, value_enum, default_value_t)]
    backend: Backend,
    /// Another build of the provider, which takes over and is taken over from [default: the same one]
    #[arg(long, value_name = "FILE")]
    other: Option<PathBuf>,
    /// Try this promise only; may be given several times
    #[arg(long, value_name = "ID")]
    only: Vec<String>,
    /// Try the promise at this point only: a call's number, and before or after it
    #[arg(long, value_name = "N:before|after", requires = "only")]
    cut: Option<Point>,
    /// Try a promise at so many of its points at most, drawn by the seed [default: all; at a real backend 2]
    #[arg(long, value_name = "N", value_parser = at_least_one, conflicts_with = "cut")]
    points: Option<usize>,
    /// What decides whatever is drawn
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// How the outcome is printed
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    namespaces: Namespaces,
    #[command(flatten)]
    home: ClusterArgs,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| "not a number of points, from 1 on".to_owned())
}

/// How the outcome is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
    /// For continuous integration
    Junit,
}

impl Test {
    pub fn run(self) -> Result<(), Failure> {
        self.test().map_err(Failure::could_not_run)
    }

    fn test(&self) -> Result<(), Failure> {
        self.makes_sense()?;
        let runtime = runtime()?;
        let subject = setup::block_on(Subject::open(&runtime, &self.file, &self.entry))?;
        let other =
            self.other.as_deref().map(|path| ComponentFile { path: path.to_owned() }.module()).transpose()?;
        let kind: Arc<dyn Kind> = match self.backend {
            Backend::Sim => kind::simulated(&subject.module, &subject.settings.config, &subject.grants()?)
                .map_err(|error| Failure::Setup(error.to_string()))?,
            Backend::Real => setup::block_on(real::kind(&subject, &self.namespaces, &self.home))?,
        };
        let few = (self.backend == Backend::Real).then_some(REAL_POINTS);
        let settings = Settings {
            // Without one the suite takes the examples itself: the second is the other revision's.
            entry: subject.from_entry.then(|| subject.tried()).transpose()?,
            other,
            seed: self.seed,
            only: self.only.clone(),
            cut: self.cut,
            points: self.points.or(few),
            ..Settings::new(subject.module)
        };
        let could_not = |error| self.could_not(error);
        let told = Told::new(if self.only.is_empty() { promise::all().len() } else { self.only.len() });
        let report = match self.backend {
            Backend::Sim => Suite::open_in(runtime, kind, settings).and_then(|suite| suite.run(&told)),
            // Until here nothing was made.
            Backend::Real => match Suite::open_in(runtime, kind, settings) {
                Ok(suite) => suite.run_until(ending::asked_for()?, &told),
                Err(error) => Err(error),
            },
        };
        let report = report.map_err(could_not)?;
        output::print(self.text(&report)?.as_bytes())?;
        judge(&report)
    }

    fn makes_sense(&self) -> Result<(), Failure> {
        match self.backend {
            Backend::Real if self.entry.path().is_none() => Err(Failure::Usage(
                "--backend real needs --entry: its grants say where the backend is, and as whom it is asked"
                    .to_owned(),
            )),
            Backend::Sim if self.home.is_given() || !self.namespaces.given.is_empty() => Err(Failure::Usage(
                "--namespace, --kubeconfig and --context are about a cluster, and none is asked without --backend \
                 real"
                    .to_owned(),
            )),
            _ => Ok(()),
        }
    }

    fn could_not(&self, error: CannotRun) -> Failure {
        let (path, error) = match (error, &self.other) {
            (CannotRun::Other(error), Some(other)) => (other.as_path(), *error),
            (error, _) => (self.file.path(), error),
        };
        match error {
            CannotRun::Refused(refusal) => Failure::refused(path, refusal),
            error @ CannotRun::OtherKind { .. } => Failure::Setup(format!("{}: {error}", path.display())),
            // Not about the component.
            error => Failure::Setup(error.to_string()),
        }
    }

    fn text(&self, report: &Report) -> Result<String, Failure> {
        match self.output {
            Format::Text => Ok(self.for_people(report)),
            Format::Junit => Ok(report.junit()),
            Format::Json => {
                let text = serde_json::to_string_pretty(&report.json());
                text.map(|text| text + "\n").map_err(|error| Failure::Render(error.to_string()))
            }
        }
    }

    fn for_people(&self, report: &Report) -> String {
        let mut text = String::new();
        for outcome in &report.outcomes {
            match &outcome.verdict {
                Verdict::Kept => {}
                Verdict::Skipped(why) => text += &format!("not applicable: {}: {why}\n", outcome.promise.id),
                Verdict::Failed(why) => text += &format!("NOT TRIED: {}: {why}\n", outcome.promise.id),
                Verdict::Broken(breach) => {
                    let again = self.again(outcome.promise.id, breach.point);
                    text += &format!("\nBROKEN: {}\nTo repeat just that:\n  {again}\n\n", outcome.told());
                }
            }
        }
        text + &report.summary()
    }

    /// The one command that repeats just that.
    fn again(&self, id: &str, point: Option<Point>) -> String {
        let mut command =
            format!("epo provider test {} --only {id} --seed {}", quoted(self.file.path()), self.seed);
        for (flag, path) in [("--entry", self.entry.path()), ("--other", self.other.as_deref())] {
            if let Some(path) = path {
                command += &format!(" {flag} {}", quoted(path));
            }
        }
        if self.backend == Backend::Real {
            command += " --backend real";
            for namespace in &self.namespaces.given {
                command += &format!(" -n {namespace}");
            }
            command += &self.home.again();
        }
        match (point, self.points) {
            (Some(point), _) => command += &format!(" --cut {point}"),
            (None, Some(points)) => command += &format!(" --points {points}"),
            (None, None) => {}
        }
        command
    }
}

fn judge(report: &Report) -> Result<(), Failure> {
    let ids = |is: fn(&Verdict) -> bool| {
        let of: Vec<&str> = report
            .outcomes
            .iter()
            .filter(|outcome| is(&outcome.verdict))
            .map(|outcome| outcome.promise.id)
            .collect();
        of.join(", ")
    };
    match (report.broken(), report.failed()) {
        (0, 0) => Ok(()),
        (0, failed) => Err(Failure::Setup(format!(
            "{failed} of {} promises could not be tried: {}",
            report.outcomes.len(),
            ids(|verdict| matches!(verdict, Verdict::Failed(_)))
        ))),
        (broken, _) => Err(Failure::Found(format!(
            "{broken} of {} promises broken: {}",
            report.outcomes.len(),
            ids(|verdict| matches!(verdict, Verdict::Broken(_)))
        ))),
    }
}

/// A line for each promise, as it is tried.
struct Told {
    of: usize,
    ended: AtomicUsize,
}

impl Told {
    fn new(of: usize) -> Self {
        Self { of, ended: AtomicUsize::new(0) }
    }
}

impl Progress for Told {
    fn ended(&self, outcome: &Outcome) {
        let number = self.ended.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let verdict = match &outcome.verdict {
            Verdict::Kept => "kept",
            Verdict::Broken(_) => "BROKEN",
            Verdict::Skipped(_) => "not applicable",
            Verdict::Failed(_) => "NOT TRIED",
        };
        let (id, of, runs) = (outcome.promise.id, self.of, outcome.counts.runs);
        let seconds = outcome.took.as_secs_f64();
        // Whoever closed the standard error does not want to hear it.
        let _ =
            writeln!(std::io::stderr(), "{number:>3}/{of} {verdict:<14} {id} ({runs} runs, {seconds:.1} s)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_a_failure_can_be_pasted() {
        let test = Test {
            file: ComponentFile { path: "it's mine.wasm".into() },
            entry: EntryFile { entry: Some("entry.yaml".into()) },
            other: None,
            only: Vec::new(),
            cut: None,
            backend: Backend::Sim,
            points: None,
            seed: 7,
            output: Format::Text,
            namespaces: Namespaces::default(),
            home: ClusterArgs::default(),
        };
        assert_eq!(
            test.again("create-marks-first", Some("6:after".parse().unwrap())),
            r"epo provider test 'it'\''s mine.wasm' --only create-marks-first --seed 7 --entry 'entry.yaml' --cut 6:after"
        );
    }
}
