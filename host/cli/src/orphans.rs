//! `epo orphans`: what stands at the backends without a Proxy, and what becomes of it.

use egress_contract::EntryName;
use egress_operator::{
    api::OrphanStatus,
    orphans::{self, Found},
};
use serde_json::{Value, json};

use crate::{
    cluster::ClusterArgs,
    failure::Failure,
    output::{self, Format, columns},
    setup,
};

#[derive(clap::Args)]
#[command(after_help = "\
What has no owner is removed by itself: after two sweeps, when it is older than its grace. Only when
many instances have none at once does the collector ask first; --delete says yes to that, and to
nothing else.")]
pub struct Orphans {
    /// The provider entry [default: all]
    entry: Option<EntryName>,
    /// Say yes to what the entry's collector asks: the instances that it lists may go
    #[arg(long, requires = "entry")]
    delete: bool,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl Orphans {
    pub fn run(self) -> Result<(), Failure> {
        setup::block_on(async {
            let client = self.cluster.client().await?;
            if let (true, Some(entry)) = (self.delete, &self.entry) {
                let found = orphans::confirm(client, entry).await?;
                let sweep = found.collector.asks.map(|asks| asks.sweep).unwrap_or_default();
                let next = format!("see them go: epo orphans {entry}");
                return output::print(
                    format!("{entry}: the instances of sweep {sweep} may go\n{next}\n").as_bytes(),
                );
            }
            let found = orphans::find(client, self.entry.as_ref()).await?;
            let data: Vec<Value> = found.iter().map(data).collect();
            output::print_as(self.output, &data, |_| text(&found))
        })
    }
}

fn data(found: &Found) -> Value {
    json!({ "entry": found.entry, "collector": found.collector })
}

fn text(found: &[Found]) -> String {
    let head = ["ENTRY", "PLACE", "NAME", "KIND", "CREATED", "WHAT BECOMES OF IT"].map(str::to_owned);
    let rows = found.iter().flat_map(|found| {
        let kept = found.collector.kept.iter().map(|kept| row(&found.entry, kept, "kept: "));
        found.collector.ownerless.iter().map(|orphan| row(&found.entry, orphan, "")).chain(kept)
    });
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    let mut text =
        if rows.len() > 1 { columns(&rows) } else { "nothing stands there without a Proxy\n".to_owned() };
    for Found { entry, collector } in found {
        let unread =
            collector.unread.iter().map(|unread| format!("unread: {}: {}", unread.place, unread.message));
        let more = (collector.more > 0).then(|| format!("and {} more, which are not listed", collector.more));
        let asks =
            collector.asks.as_ref().map(|asks| format!("{}\nor: epo orphans {entry} --delete", asks.message));
        for line in collector.halted.clone().into_iter().chain(unread).chain(more).chain(asks) {
            text.push_str(&format!("\n{entry}: {line}\n"));
        }
    }
    text
}

fn row(entry: &str, orphan: &OrphanStatus, prefix: &str) -> [String; 6] {
    [
        entry.to_owned(),
        orphan.place.clone(),
        orphan.name.clone(),
        orphan.leftover.clone().unwrap_or_else(|| "instance".to_owned()),
        orphan.created.as_ref().map_or_else(|| "unknown".to_owned(), |time| time.0.to_string()),
        format!("{prefix}{}", orphan.message),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use egress_operator::api::{AsksStatus, CollectorStatus, UnreadStatus};

    fn found() -> Found {
        let orphan = OrphanStatus {
            place: "home/a".into(),
            name: "proxy-web-abc-def".into(),
            message: "waits for your word".into(),
            ..OrphanStatus::default()
        };
        let collector = CollectorStatus {
            asks: Some(AsksStatus { sweep: "c0ffee".into(), message: "3 of 3 have no Proxy".into() }),
            ownerless: vec![orphan.clone()],
            kept: vec![OrphanStatus { message: "another namespace".into(), ..orphan }],
            unread: vec![UnreadStatus { place: "home/b".into(), message: "forbidden".into() }],
            ..CollectorStatus::default()
        };
        Found { entry: "kubernetes".into(), collector }
    }

    #[test]
    fn each_is_told_with_what_becomes_of_it_and_what_can_be_done() {
        let told = text(&[found()]);
        for part in [
            "proxy-web-abc-def  instance  unknown  waits for your word",
            "kept: another namespace",
            "kubernetes: unread: home/b: forbidden",
            "3 of 3 have no Proxy\nor: epo orphans kubernetes --delete",
        ] {
            assert!(told.contains(part), "{told}");
        }
        assert_eq!(text(&[]), "nothing stands there without a Proxy\n");
    }
}
