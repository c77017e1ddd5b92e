//! Delete, undisturbed.

use std::time::Duration;

use egress_contract::{Deleted, ErrorClass};
use egress_sim::backend::Action;

use crate::{
    halt::{Go, broken, ensure},
    host::failed,
    sight,
    sweep::Play,
    trial::Trial,
};

/// Twice, and of nothing.
pub async fn is_repeatable(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    play.unmake().await?;
    play.make().await?;
    play.unmake().await?;
    sight::nothing(&play.stage).await?;
    play.unmake().await?;
    play.proxy.id = None;
    play.unmake().await
}

/// While anything is left, be it on its way out, delete is not done.
pub async fn done_means_nothing_is_left(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    play.make().await?;
    play.unmake().await?;
    sight::nothing(&play.stage).await?;
    let mut play = Play::new(trial).await?;
    play.make().await?;
    for held in play.stage.inventory().await? {
        let mut play = Play::new(trial).await?;
        play.make().await?;
        play.stage.act(&held, Action::HoldRemoval).await?;
        for _ in 0..8 {
            let wait = match play.host.delete_step(&mut play.proxy).await?.answer {
                Ok(Deleted::Done) => {
                    return broken(format!("delete is done, and its removal held up there is still {held}"));
                }
                Ok(Deleted::Pending(step)) => step.poll,
                Err(error) if error.class == ErrorClass::Transient => Duration::from_secs(10),
                Err(error) => {
                    return broken(format!(
                        "while the removal of {held} is held up, delete says {}",
                        failed(&error)
                    ));
                }
            };
            play.stage.wait(wait).await;
        }
        play.stage.act(&held, Action::LetGo).await?;
        play.unmake().await?;
        sight::nothing(&play.stage).await?;
    }
    Ok(())
}

/// Whose id was never kept is found.
pub async fn finds_it_without_an_id(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    play.make().await?;
    play.proxy.id = None;
    play.proxy.progress = None;
    play.unmake().await?;
    sight::nothing(&play.stage).await
}

/// An id that can't be one is no reason to say that nothing is there.
pub async fn malformed_id_is_permanent(trial: &mut Trial<'_>) -> Go {
    let mut play = Play::new(trial).await?;
    play.make().await?;
    let id = play.proxy.id.clone();
    for malformed in ["?", "no id at all", "a/b/c/d/e/f/g", "//"] {
        play.proxy.id = Some(malformed.to_owned());
        let told = match play.host.delete_step(&mut play.proxy).await?.answer {
            Ok(Deleted::Done) => Some("delete says done".to_owned()),
            Ok(Deleted::Pending(_)) => Some("delete says pending".to_owned()),
            Err(error) if error.class != ErrorClass::Permanent => {
                Some(format!("delete says {}", failed(&error)))
            }
            Err(_) => None,
        };
        ensure(told.is_none(), || {
            format!("of the id {malformed:?} {}; it should be permanent", told.unwrap_or_default())
        })?;
        play.proxy.id = Some(malformed.to_owned());
        match play.host.get(&play.proxy).await?.answer {
            Err(error) if error.class == ErrorClass::Permanent => {}
            Err(error) => {
                return broken(format!(
                    "of the id {malformed:?} get says {}; it should be permanent",
                    failed(&error)
                ));
            }
            Ok(_) => return broken(format!("of the id {malformed:?} get shows an instance")),
        }
    }
    play.proxy.id = id;
    sight::one_instance(&play).await
}

/// Progress that can't be read is as good as none.
pub async fn strange_progress_is_ignored(trial: &mut Trial<'_>) -> Go {
    for strange in ["", "?", "{\"step\":\"clone\",\"task\":\"UPID:9\",\"v\":999}", "\u{1f980}\0\u{7}"] {
        let mut play = Play::new(trial).await?;
        play.proxy.progress = Some(strange.to_owned());
        play.make().await?;
        sight::one_instance(&play).await?;
        play.proxy.progress = Some(strange.to_owned());
        play.unmake().await?;
        sight::nothing(&play.stage).await?;
    }
    Ok(())
}
