//! `epo get`: a table, or the objects as they are.

use clap::ValueEnum;
use egress_operator::api::{ProviderHealth, Proxy};
use egress_standalone::Look;
use jiff::Timestamp;
use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::{Kind, Where, columns, name_of, text_at};
use crate::{
    failure::Failure,
    output::{self, Format},
};

/// See the module.
#[derive(clap::Args)]
#[command(after_help = "\
What is wrong in a file of the directory, and what the operator asks before it removes much at once,
stands below the table, on the standard error.")]
pub struct Get {
    /// Of what
    #[arg(value_enum, default_value = "proxies")]
    kind: Kind,
    /// Which; all where none is given
    names: Vec<String>,
    #[command(flatten)]
    at: Where,
    /// Of this namespace only [default: all]
    #[arg(short, long)]
    namespace: Option<String>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Shape,
}

/// As kubectl's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Shape {
    /// The usual columns
    #[default]
    Table,
    /// All columns
    Wide,
    /// For programs and people
    Yaml,
    /// For programs
    Json,
}

impl Get {
    pub fn run(self) -> Result<(), Failure> {
        let look = Look::at(self.at.path())?;
        let mut found = match self.kind {
            Kind::Proxies => look.proxies()?,
            Kind::Providerhealths => look.health()?,
        };
        if let Some(namespace) = self.namespace.as_ref().filter(|_| self.kind == Kind::Proxies) {
            found.retain(|object| text_at(object, "/metadata/namespace") == namespace);
        }
        found.retain(|object| self.names.is_empty() || self.names.iter().any(|name| name == name_of(object)));
        let missing: Vec<_> =
            self.names.iter().filter(|name| !found.iter().any(|object| name_of(object) == **name)).collect();
        match self.output {
            Shape::Table | Shape::Wide => {
                let text = self.table(&found);
                output::print(text.as_bytes())?;
            }
            Shape::Yaml => print(Format::Yaml, self.whole(found))?,
            Shape::Json => print(Format::Json, self.whole(found))?,
        }
        for note in look.notes() {
            output::tell(&note);
        }
        if look.runner().is_none() {
            output::tell("no operator runs this directory: this is what the last one knew");
        }
        match missing.as_slice() {
            [] => Ok(()),
            [first, ..] => Err(Failure::Found(format!("there is no {first} here"))),
        }
    }

    fn table(&self, found: &[Value]) -> String {
        let definition = match self.kind {
            Kind::Proxies => Proxy::crd(),
            Kind::Providerhealths => ProviderHealth::crd(),
        };
        if found.is_empty() {
            return "nothing is there\n".to_owned();
        }
        let first = found.first().map(|object| text_at(object, "/metadata/namespace"));
        // As long as all have the same one, it is nobody's question.
        let several = found.iter().any(|object| Some(text_at(object, "/metadata/namespace")) != first);
        columns::table(&columns::rows(
            &definition,
            found,
            several,
            self.output == Shape::Wide,
            Timestamp::now(),
        ))
    }

    /// One object where one is asked for, else a list: as kubectl.
    fn whole(&self, mut found: Vec<Value>) -> Value {
        match (self.names.len(), found.len()) {
            (1, 1) => found.swap_remove(0),
            _ => json!({ "apiVersion": "v1", "kind": "List", "items": found }),
        }
    }
}

fn print(format: Format, data: Value) -> Result<(), Failure> {
    output::print_as(format, &data, |_| String::new())
}
