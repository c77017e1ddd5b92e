//! `epo provider history`, `rollback`, `hold` and `resume`: an entry's revisions in a running cluster.

use egress_contract::EntryName;
use egress_operator::{
    api::Hold as Held,
    rollback::{self, Past},
};
use serde_json::{Value, json};

use crate::{
    cluster::ClusterArgs,
    failure::Failure,
    output::{self, Format, columns},
    setup,
};

/// Which entry, where.
#[derive(clap::Args)]
struct EntryArgs {
    /// The provider entry: a key of the providers ConfigMap
    entry: EntryName,
    /// The operator's namespace
    #[arg(short, long, env = "EPO_NAMESPACE", default_value = "egress-system")]
    namespace: String,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(clap::Args)]
pub struct History {
    #[command(flatten)]
    entry: EntryArgs,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(clap::Args)]
#[command(after_help = "\
The entry then keeps that revision, also over restarts, until its ConfigMap offers something new.
To end the hold earlier, roll back to the revision that is offered.")]
pub struct Rollback {
    #[command(flatten)]
    entry: EntryArgs,
    /// The revision to run, or how it begins [default: the one before the active one; the active one while another is on trial]
    #[arg(long, value_name = "REVISION")]
    to: Option<String>,
}

#[derive(clap::Args)]
#[command(after_help = "\
The entry then keeps that revision, also over restarts and whatever its ConfigMap offers, until:
  epo provider resume ENTRY")]
pub struct Hold {
    #[command(flatten)]
    entry: EntryArgs,
    /// The revision to keep, or how it begins [default: the active one]
    revision: Option<String>,
}

#[derive(clap::Args)]
pub struct Resume {
    #[command(flatten)]
    entry: EntryArgs,
}

impl History {
    pub fn run(self) -> Result<(), Failure> {
        setup::block_on(async {
            let client = self.entry.cluster.client().await?;
            let past = rollback::history(client, &self.entry.namespace, &self.entry.entry).await?;
            let data: Vec<Value> = past.iter().map(data).collect();
            output::print_as(self.output, &data, |_| table(&past))
        })
    }
}

impl Rollback {
    pub fn run(self) -> Result<(), Failure> {
        setup::block_on(async {
            let EntryArgs { entry, namespace, cluster } = self.entry;
            let client = cluster.client().await?;
            let done = rollback::rollback(client, &namespace, &entry, self.to.as_deref()).await?;
            let from = done.from.map_or_else(String::new, |from| format!(" (from {from})"));
            let until = match &done.hold {
                Some(Held { instead_of: Some(_), .. }) => {
                    "it is held there until the entry's source offers something new".to_owned()
                }
                Some(Held { instead_of: None, .. }) => {
                    format!("it is held there, as it was before, until: epo provider resume {entry}")
                }
                None => "that is what the entry's source offers, so no hold is needed".to_owned(),
            };
            let next = format!("see it taken up: kubectl get providerhealth {entry}");
            output::print(format!("{entry} goes to revision {}{from}; {until}\n{next}\n", done.to).as_bytes())
        })
    }
}

impl Hold {
    pub fn run(self) -> Result<(), Failure> {
        setup::block_on(async {
            let EntryArgs { entry, namespace, cluster } = self.entry;
            let client = cluster.client().await?;
            let hold = rollback::hold_on(client, &namespace, &entry, self.revision.as_deref()).await?;
            let until = format!("until: epo provider resume {entry}");
            output::print(format!("{entry} is held at revision {}, {until}\n", hold.revision).as_bytes())
        })
    }
}

impl Resume {
    pub fn run(self) -> Result<(), Failure> {
        setup::block_on(async {
            let EntryArgs { entry, namespace, cluster } = self.entry;
            let ended = rollback::resume(cluster.client().await?, &namespace, &entry).await?;
            let done = match ended {
                Some(Held { revision, reason, .. }) => {
                    let why = reason.map_or_else(String::new, |why| format!(" (it was: {why})"));
                    format!(
                        "the hold of {entry} at revision {revision} is over{why}; it goes to what its source offers\n"
                    )
                }
                None => format!("{entry} is not held\n"),
            };
            output::print(done.as_bytes())
        })
    }
}

fn data(past: &Past) -> Value {
    let about = &past.about;
    json!({
        "revision": about.revision,
        "active": past.active,
        "held": past.held,
        "untilResumed": past.until_resumed,
        "whyHeld": past.why_held,
        "onTrial": past.on_trial,
        "offered": past.offered,
        "kept": past.kept,
        "name": about.name,
        "version": about.version,
        "digest": about.digest,
        "contract": about.contract,
        "source": about.source,
        "since": about.since,
    })
}

fn table(past: &[Past]) -> String {
    let head = ["REVISION", "", "PROVIDER", "VERSION", "DIGEST", "LAST ACTIVE", "SOURCE"].map(str::to_owned);
    let row = |past: &Past| {
        let about = &past.about;
        let marks = [
            (past.active, "active"),
            (past.on_trial, "on trial"),
            (past.held && !past.until_resumed, "held"),
            (past.until_resumed, "held until resumed"),
            (past.offered, "offered"),
            (!past.kept && !past.on_trial, "not kept yet"),
        ];
        let marks: Vec<&str> = marks.into_iter().filter_map(|(is, mark)| is.then_some(mark)).collect();
        let since = about.since.as_ref().map_or_else(String::new, |since| since.0.to_string());
        // Enough of the digest to tell two apart; -o json has all of it.
        let digest = about.digest.chars().take("sha256:".len() + 12).collect();
        [
            about.revision.clone(),
            marks.join(","),
            about.name.clone(),
            about.version.clone(),
            digest,
            since,
            about.source.clone(),
        ]
    };
    let table = columns(&std::iter::once(head).chain(past.iter().map(row)).collect::<Vec<_>>());
    let why = past.iter().filter_map(|past| Some(format!("held: {}\n", past.why_held.as_ref()?)));
    std::iter::once(table).chain(why).collect()
}
