//! What is not ours: never adopted, never touched, never listed, and named in the error.
//!
//! Strangers are made out of our own: an administrator changes the mark on them. So they look in every other
//! way as the provider would have made them, whatever its backend.

use egress_contract::{Error, ErrorClass};
use egress_sim::backend::{Action, Thing};

use crate::{
    halt::{Go, broken, ensure},
    host::failed,
    proxy::{Proxy, THEIRS},
    sight,
    sweep::Play,
    trial::Trial,
};

/// Stands nowhere but in its own place of a mark.
const INCARNATION: u32 = 704_112;

/// How something is not this target's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stranger {
    Unmarked,
    AnotherInstallation,
    AnotherUid,
    AnotherIncarnation,
    Mangled,
}

impl Stranger {
    const ALL: [Self; 5] = [
        Self::Unmarked,
        Self::AnotherInstallation,
        Self::AnotherUid,
        Self::AnotherIncarnation,
        Self::Mangled,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Unmarked => "an instance without a mark",
            Self::AnotherInstallation => "another installation's instance",
            Self::AnotherUid => "another Proxy's instance",
            Self::AnotherIncarnation => "another incarnation's instance",
            Self::Mangled => "an instance whose mark is mangled",
        }
    }

    /// What makes it so, and what then stands there and must be named.
    fn action(self, proxy: &Proxy) -> (Action, String) {
        let edit = |from: &str, to: String| (Action::EditMark { from: from.to_owned(), to: to.clone() }, to);
        let hash = proxy.installation.hash();
        match self {
            Self::Unmarked => (Action::Unmark, String::new()),
            Self::AnotherInstallation => {
                edit(hash, egress_contract::Installation::new(THEIRS).hash().to_owned())
            }
            Self::AnotherUid => edit(&proxy.uid, proxy.uid.replace("6f1d", "77aa")),
            Self::AnotherIncarnation => edit(&INCARNATION.to_string(), (INCARNATION + 1).to_string()),
            Self::Mangled => {
                edit(&proxy.uid, proxy.uid.get(..9).unwrap_or_default().trim_matches('-').to_owned())
            }
        }
    }

    /// Makes all of `things` strangers.
    async fn make(self, play: &Play, things: &[Thing]) -> Go<String> {
        let (action, stands) = self.action(&play.proxy);
        for thing in things {
            play.stage.act(thing, action.clone()).await?;
        }
        Ok(stands)
    }
}

async fn with_instance(trial: &mut Trial<'_>) -> Go<Play> {
    let mut play = Play::new(trial).await?;
    play.proxy.incarnation = INCARNATION;
    play.make().await?;
    Ok(play)
}

/// The record as it is before a create, or as it is after one.
fn records(proxy: &Proxy) -> [Proxy; 2] {
    [Proxy { id: None, progress: None, ..proxy.clone() }, proxy.clone()]
}

fn is_foreign(error: &Error) -> bool {
    error.class == ErrorClass::Permanent && error.reason == "foreign"
}

/// Create at a stranger's: permanent foreign, whatever is kept of an earlier create.
pub async fn is_never_adopted(trial: &mut Trial<'_>) -> Go {
    for stranger in Stranger::ALL {
        let play = with_instance(trial).await?;
        let things = play.stage.inventory().await?;
        stranger.make(&play, &things).await?;
        let before = play.stage.inventory().await?;
        for mut proxy in records(&play.proxy) {
            let what = stranger.as_str();
            match play.host.create(&mut proxy, play.patience).await? {
                Err(error) if is_foreign(&error) => {}
                Err(error) => {
                    return broken(format!(
                        "at {what} create says {}; it should be permanent foreign",
                        failed(&error)
                    ));
                }
                Ok(()) => return broken(format!("create adopts {what}")),
            }
            sight::untouched(&play.stage, &before).await?;
        }
    }
    Ok(())
}

/// Get of a stranger's: permanent foreign.
pub async fn is_never_shown_as_ours(trial: &mut Trial<'_>) -> Go {
    for stranger in Stranger::ALL {
        let play = with_instance(trial).await?;
        let things = play.stage.inventory().await?;
        stranger.make(&play, &things).await?;
        match play.host.get(&play.proxy).await?.answer {
            Err(error) if is_foreign(&error) => {}
            Err(error) => {
                return broken(format!(
                    "of {} get says {}; it should be permanent foreign",
                    stranger.as_str(),
                    failed(&error)
                ));
            }
            Ok(instance) => {
                return broken(format!("get shows {} as ours: {:?}", stranger.as_str(), instance.state));
            }
        }
    }
    Ok(())
}

/// Delete at a stranger's: whatever is not ours stays as it is, be it all or a part.
pub async fn is_never_removed(trial: &mut Trial<'_>) -> Go {
    // What can bear no mark is ours by its name, or is not: nobody can make it strange.
    let bears = |thing: &Thing| !thing.mark.is_empty();
    let parts = with_instance(trial).await?.stage.inventory().await?.into_iter().filter(bears).count();
    for stranger in Stranger::ALL {
        // All of it, then each part alone.
        for part in 0..=parts {
            let play = with_instance(trial).await?;
            let all = play.stage.inventory().await?;
            let things = match part.checked_sub(1) {
                None => all,
                Some(part) => all.into_iter().filter(bears).skip(part).take(1).collect(),
            };
            stranger.make(&play, &things).await?;
            let strange: Vec<Thing> = {
                let now = play.stage.inventory().await?;
                now.into_iter()
                    .filter(|now| {
                        things.iter().any(|thing| (&thing.kind, &thing.name) == (&now.kind, &now.name))
                    })
                    .collect()
            };
            for mut proxy in records(&play.proxy) {
                let ended = play.host.delete(&mut proxy, play.patience).await?;
                for thing in &strange {
                    let now = play.stage.inventory().await?;
                    let same = now.iter().any(|now| now == thing);
                    ensure(same, || format!("delete touched what is not ours: {thing}"))?;
                }
                match ended {
                    Err(error) if is_foreign(&error) => {}
                    Err(error) => {
                        return broken(format!(
                            "at {} delete says {}; it should be permanent foreign",
                            stranger.as_str(),
                            failed(&error)
                        ));
                    }
                    Ok(()) => {
                        return broken(format!(
                            "delete says done, and at our name there is {}",
                            stranger.as_str()
                        ));
                    }
                }
            }
        }
    }
    Ok(())
}

/// The error names what stands there and what should.
pub async fn is_named(trial: &mut Trial<'_>) -> Go {
    for stranger in Stranger::ALL {
        let play = with_instance(trial).await?;
        let things = play.stage.inventory().await?;
        let stands = stranger.make(&play, &things).await?;
        let mut proxy = play.proxy.clone();
        let errors = [
            play.host.create_step(&mut proxy).await?.answer.err(),
            play.host.get(&play.proxy).await?.answer.err(),
            play.host.delete_step(&mut proxy).await?.answer.err(),
        ];
        for error in errors.into_iter().flatten().filter(is_foreign) {
            for (what, text) in
                [("its name", proxy.name().as_str()), ("our UID", &proxy.uid), ("what stands there", &stands)]
            {
                ensure(error.message.contains(text), || {
                    format!(
                        "of {} the error does not name {what} ({text}): {}",
                        stranger.as_str(),
                        error.message
                    )
                })?;
            }
        }
    }
    Ok(())
}

/// A list shows no other installation's, and nothing without our mark.
pub async fn is_never_listed(trial: &mut Trial<'_>) -> Go {
    let play = Play::new(trial).await?;
    let stage = play.stage.clone();
    let theirs = stage.host_of("t", trial.subject(), THEIRS).await?;
    let mut other = Proxy::new(THEIRS, &play.proxy.namespace, "web", 9);
    theirs.make(&mut other).await?;
    nothing_listed(&play, "another installation's instance").await?;
    for stranger in [Stranger::Unmarked, Stranger::AnotherInstallation] {
        let play = with_instance(trial).await?;
        let things = play.stage.inventory().await?;
        stranger.make(&play, &things).await?;
        nothing_listed(&play, stranger.as_str()).await?;
    }
    Ok(())
}

async fn nothing_listed(play: &Play, what: &str) -> Go {
    let items = play.host.list().await?;
    ensure(items.is_empty(), || {
        let ids: Vec<&str> = items.iter().map(|item| item.id.as_str()).collect();
        format!("{what} is listed as ours: {}", ids.join(", "))
    })
}
