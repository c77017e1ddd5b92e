//! `epo provider diff`: what two components ask for, take, and do otherwise.
//!
//! What stands in their bytes is compared first, then what they say of themselves, then what they do at a
//! simulated backend: one instance's life, and every promise of the contract, handing over to each other.

mod behaviour;

use std::path::{Path, PathBuf};

use egress_runtime::{Inspection, Runtime, inspect};
use egress_sim::difference::{self, Change};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    ComponentFile,
    entry::{EntryFile, Subject},
    inspect::allows,
    runtime,
};
use crate::{
    failure::Failure,
    output::{self, TextOrJson, bytes, columns},
    setup,
};
use behaviour::{Behaviour, Tried};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  # may this build replace that one?
  epo provider diff running.wasm fixed.wasm --entry kubernetes.yaml

Both get the same config: that of the entry, or the first example of OLD's schema. For the promises, each point where
a host can die or another revision can take over is tried, with OLD and NEW handing over to each other.

Exit codes:
  0  no difference
  1  something differs
  2  could not run: usage, a file, a component")]
pub struct Diff {
    /// The component that is there
    old: PathBuf,
    /// The one that is to replace it
    new: PathBuf,
    #[command(flatten)]
    entry: EntryFile,
    /// Leave the promises of the contract out: they take most of the time
    #[arg(long)]
    no_promises: bool,
    /// Try only this promise; may be given several times
    #[arg(long, value_name = "ID", conflicts_with = "no_promises")]
    only: Vec<String>,
    /// Decides whatever the simulated backend draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How the differences are printed
    #[arg(short, long, value_enum, default_value_t)]
    output: TextOrJson,
}

/// One of the two.
struct Side {
    file: ComponentFile,
    subject: Subject,
    inspection: Inspection,
}

/// What is printed; the names are those of the JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    same: bool,
    old: Value,
    new: Value,
    contract: Vec<Change>,
    imports: Sets,
    exports: Sets,
    profile: Vec<Change>,
    config_schema: Vec<Change>,
    #[serde(flatten)]
    behaviour: Behaviour,
}

/// What only one of them has.
#[derive(Serialize)]
struct Sets {
    gone: Vec<String>,
    new: Vec<String>,
}

impl Sets {
    fn of(old: &[String], new: &[String]) -> Self {
        let only = |some: &[String], others: &[String]| {
            some.iter().filter(|one| !others.contains(one)).cloned().collect()
        };
        Self { gone: only(old, new), new: only(new, old) }
    }

    fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.new.is_empty()
    }
}

impl Diff {
    pub fn run(self) -> Result<(), Failure> {
        self.compare().map_err(Failure::could_not_run)
    }

    fn compare(self) -> Result<(), Failure> {
        let runtime = runtime()?;
        let (old, new, mut behaviour) = setup::block_on(async {
            let old = self.side(&runtime, &self.old).await?;
            let mut new = self.side(&runtime, &self.new).await?;
            let behaviour = Behaviour::lives(&runtime, &old, &mut new, self.seed).await?;
            Ok((old, new, behaviour))
        })?;
        if !self.no_promises && behaviour.refused.is_none() {
            behaviour.promises(&runtime, &old, &new, &Tried { seed: self.seed, only: &self.only })?;
        }
        let report = Report::new(&old, &new, behaviour);
        output::print_as(self.output.into(), &report, Report::text)?;
        match report.same {
            true => Ok(()),
            false => Err(Failure::Found(format!("{} and {} differ", self.old.display(), self.new.display()))),
        }
    }

    async fn side(&self, runtime: &Runtime, path: &Path) -> Result<Side, Failure> {
        let file = ComponentFile::new(path.to_owned());
        let subject = Subject::open(runtime, &file, &self.entry).await?;
        let inspection = inspect(subject.module.bytes()).map_err(|refusal| file.refused(refusal))?;
        Ok(Side { file, subject, inspection })
    }
}

impl Side {
    fn data(&self) -> Value {
        let description = self.subject.description();
        json!({
            "file": self.file.path().display().to_string(),
            "name": description.name,
            "version": description.version,
            "digest": self.subject.module.digest().to_string(),
            "sizeBytes": self.subject.module.bytes().len(),
        })
    }
}

impl Report {
    fn new(old: &Side, new: &Side, behaviour: Behaviour) -> Self {
        let (before, after) = (old.subject.description(), new.subject.description());
        let names = |side: &Side| json!({ "name": side.subject.description().name, "contract": side.inspection.contract });
        let mut report = Self {
            same: false,
            old: old.data(),
            new: new.data(),
            contract: difference::between(&names(old), &names(new)),
            imports: Sets::of(&old.inspection.imports, &new.inspection.imports),
            exports: Sets::of(&old.inspection.exports, &new.inspection.exports),
            profile: difference::between(&before.profile, &after.profile),
            config_schema: difference::between(&before.config_schema, &after.config_schema),
            behaviour,
        };
        report.same = report.contract.is_empty()
            && report.imports.is_empty()
            && report.exports.is_empty()
            && report.profile.is_empty()
            && report.config_schema.is_empty()
            && report.behaviour.is_same();
        report
    }

    fn text(&self) -> String {
        let row = |side: &Value| {
            let of = |key: &str| side.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let size = bytes(side.get("sizeBytes").and_then(Value::as_u64).unwrap_or_default());
            [of("file"), format!("{} {}", of("name"), of("version")), size, of("digest")]
        };
        let mut text = columns(&[row(&self.old), row(&self.new)]);
        let mut section = |title: &str, body: String| {
            if !body.is_empty() {
                text += &format!("\n{title}\n{body}");
            }
        };
        section("Name and contract", difference::shown(&self.contract, "  "));
        let allowing = |interface: &String| format!("{interface}: {}", allows(interface));
        section("Imports", self.imports.text(allowing));
        section("Exports", self.exports.text(Clone::clone));
        section("Profile", difference::shown(&self.profile, "  "));
        section("Config schema", difference::shown(&fields(&self.config_schema), "  "));
        for (title, body) in self.behaviour.sections() {
            section(title, body);
        }
        if self.same {
            text += "\nno difference\n";
        }
        text + &self.behaviour.summary()
    }
}

impl Sets {
    fn text(&self, told: impl Fn(&String) -> String) -> String {
        let line = |sign: &'static str| {
            let told = &told;
            move |one: &String| format!("  {sign} {}\n", told(one))
        };
        self.gone.iter().map(line("-")).chain(self.new.iter().map(line("+"))).collect()
    }
}

/// `properties.squid.properties.binary.default` is the default of `squid.binary`.
fn fields(changes: &[Change]) -> Vec<Change> {
    let named = |change: &Change| {
        let path = change.path.replace(".properties.", ".");
        let path = path.strip_prefix("properties.").unwrap_or(&path).to_owned();
        Change { path, ..change.clone() }
    };
    changes.iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_a_schema_is_named_as_in_a_config() {
        let of = |value: &str| json!({ "properties": { "squid": { "properties": { "binary": { "default": value } } } } });
        let told = fields(&difference::between(&of("/a"), &of("/b")));
        assert_eq!(told[0].path, "squid.binary.default");
    }

    #[test]
    fn what_only_one_of_them_has_is_told_with_its_sign() {
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let sets = Sets::of(&of(&["a", "b"]), &of(&["b", "c"]));
        assert_eq!(sets.text(Clone::clone), "  - a\n  + c\n");
        assert!(Sets::of(&of(&["a"]), &of(&["a"])).is_empty());
    }
}
