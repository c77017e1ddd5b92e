//! `epo delete`: a Proxy out of its file, and its instance with it.

use std::{
    thread,
    time::{Duration, Instant},
};

use egress_standalone::{Look, end};
use serde_json::Value;

use super::{Kind, Where, text_at};
use crate::{failure::Failure, output, run::duration};

/// Between two looks at whether it is gone.
const LOOK: Duration = Duration::from_millis(250);

/// See the module.
#[derive(clap::Args)]
#[command(after_help = "\
A file that holds only this Proxy is removed; from one that holds others, its document is cut out.
Removing the file by hand does the same, but for many at once: those stay until this command names them.")]
pub struct Delete {
    /// Of what; entries are removed from their file by hand
    #[arg(value_enum)]
    kind: Kind,
    /// Which
    #[arg(required = true)]
    names: Vec<String>,
    #[command(flatten)]
    at: Where,
    /// The Proxies' namespace
    #[arg(short, long, env = "EPO_NAMESPACE", default_value = "default")]
    namespace: String,
    /// Leave the instance where it is: for a backend that will never come back
    #[arg(long)]
    abandon: bool,
    /// Wait until it is gone, if an operator runs
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    wait: bool,
    /// How long to wait at most
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    timeout: Duration,
}

impl Delete {
    pub fn run(self) -> Result<(), Failure> {
        if self.kind != Kind::Proxies {
            return Err(Failure::Usage(
                "only Proxies are deleted so: take an entry out of its file, and the operator lets go of it"
                    .to_owned(),
            ));
        }
        let path = self.at.path();
        let mut uids = Vec::new();
        for name in &self.names {
            let ended = end(path, &self.namespace, name, self.abandon)?;
            let file = match ended.file {
                Some((file, true)) => format!("; {file} is removed"),
                Some((file, false)) => format!("; it is taken out of {file}"),
                None => String::new(),
            };
            output::print(format!("Proxy {}/{name} is to go{file}\n", self.namespace).as_bytes())?;
            uids.push((name, ended.uid));
        }
        let look = Look::at(path)?;
        if look.runner().is_none() {
            output::tell("no operator runs this directory: the next one removes it");
            return Ok(());
        }
        if !self.wait {
            return Ok(());
        }
        let until = Instant::now() + self.timeout;
        loop {
            let proxies = look.proxies()?;
            let is_there = |uid: &String| proxies.iter().find(|proxy| text_at(proxy, "/metadata/uid") == uid);
            let Some((name, left)) = uids.iter().find_map(|(name, uid)| Some((name, is_there(uid)?))) else {
                return output::print(b"gone\n");
            };
            if Instant::now() > until {
                return Err(Failure::Found(late(name, left, self.timeout)));
            }
            thread::sleep(LOOK);
        }
    }
}

fn late(name: &str, left: &Value, waited: Duration) -> String {
    let message = match text_at(left, "/status/message") {
        "" => "nothing is told about it",
        message => message,
    };
    format!("Proxy {name} is still there after {waited:?}: {message}")
}
