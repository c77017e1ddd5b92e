//! Steps towards nothing: one delete operation, polled; the boot disk goes with the VM.
//!
//! What create left in the progress is waited for: an insert in flight looks like nothing there.

use provider_sdk::{Deleted, Error, Pending, Target, http::Method, reason};

use crate::{
    Host,
    api::Api,
    config::Config,
    firewall,
    id::{self, Id, Location},
    instance::{self, Found, Machine, Status},
    list,
    progress::{Progress, What},
    request_id,
};

const POLL_MS: u32 = 3_000;

/// See `Provider::delete`.
pub fn delete<H: Host>(host: &H, config: &Config, target: &Target) -> Result<Deleted, Error> {
    let api = Api::new(host, config);
    let at = match target.id.as_deref().map(id::parse).transpose()? {
        Some(Id::Firewall(name)) => return firewall::delete(&api, target, &name),
        Some(Id::Instance(at)) => at,
        None => match anywhere(&api, &target.name)? {
            Some(at) => at,
            None => return Ok(Deleted::Done),
        },
    };
    let progress = Progress::read(target.progress.as_deref());
    let deleted = match running(&api, &at, &progress)? {
        Running::Waits(step) => return Ok(step),
        Running::Deleted => true,
        Running::Nothing => false,
    };
    match instance::find(&api, &at, target)? {
        Found::Foreign(mark) => Err(instance::foreign(&config.project, &at, &mark, &host.mark())),
        Found::Ours(machine) => begin(&api, &progress, &machine),
        // Nobody inserts behind a delete that ended: calls about one name do not overlap.
        Found::Nothing if deleted => Ok(Deleted::Done),
        Found::Nothing => match api.under_way(&at, "insert")? {
            Some(operation) => {
                let waits = progress.running(What::Insert, &operation.name);
                Ok(pending(&waits, format!("waits for {} to be inserted, to delete it then", at.name)))
            }
            None => Ok(Deleted::Done),
        },
    }
}

/// Without an id: where the name stands. A list that is not whole says nothing.
fn anywhere<H: Host>(api: &Api<'_, H>, name: &str) -> Result<Option<Location>, Error> {
    let filter = format!("(name={name})");
    let asked = || api.asked(format!("look for {name} in every zone"));
    let mut token = None;
    loop {
        let part =
            list::aggregated(api, &filter, token.as_deref()).map_err(|trouble| asked().error(&trouble))?;
        let found = part.instances.iter().map(|(at, _)| at).find(|at| at.name == name);
        if let Some(at) = found {
            return Ok(Some(at.clone()));
        }
        if let Some(unread) = part.unread.first() {
            return Err(Error::transient(reason::BACKEND, asked().told(unread, "it is looked for again")));
        }
        match part.next {
            Some(next) => token = Some(next),
            None => return Ok(None),
        }
    }
}

/// What the operation in the progress says.
enum Running {
    Waits(Deleted),
    /// It was a delete, and went well.
    Deleted,
    Nothing,
}

fn running<H: Host>(api: &Api<'_, H>, at: &Location, progress: &Progress) -> Result<Running, Error> {
    let Some(kept) = &progress.running else { return Ok(Running::Nothing) };
    let doing = match kept.what {
        What::Insert | What::Start | What::Labels => {
            format!("waits for {} to come up, to delete it then", at.name)
        }
        What::Delete => format!("deletes {} in {}", at.name, at.zone),
        // Nothing of the instance's own.
        What::Firewall => return Ok(Running::Nothing),
    };
    let Some(operation) = api.zone_operation(&at.zone, &kept.operation)? else { return Ok(Running::Nothing) };
    if !operation.done {
        return Ok(Running::Waits(pending(progress, doing)));
    }
    match (kept.what, operation.failed) {
        (What::Delete, Some(failed)) if !failed.is_not_found() => {
            let asked = api.asked(format!("delete the instance {} in {}", at.name, at.zone));
            Err(Error { progress: Some(progress.anew().write()), ..failed.error(&asked) })
        }
        // What a progress of another instance says is not believed: the operation names its target.
        (What::Delete, _)
            if operation.target.ends_with(&format!("/zones/{}/instances/{}", at.zone, at.name)) =>
        {
            Ok(Running::Deleted)
        }
        _ => Ok(Running::Nothing),
    }
}

fn begin<H: Host>(api: &Api<'_, H>, progress: &Progress, machine: &Machine) -> Result<Deleted, Error> {
    let Location { zone, name } = machine.at();
    let asked = || api.asked(format!("delete the instance {name} in {zone}"));
    if machine.is_protected() {
        return Err(Error::permanent(
            "protected",
            asked().told(
                "somebody protected it from being deleted",
                "take the protection away (gcloud compute instances update --no-deletion-protection)",
            ),
        ));
    }
    // What one operation did not do, the next attempt does: the same request id would answer with that one.
    let again = match &progress.running {
        Some(kept) if kept.what == What::Delete => progress.anew(),
        _ => Progress { running: None, ..progress.clone() },
    };
    let id = request_id::derive(&["delete", machine.number(), &again.attempt.to_string()]);
    match api.begin(Method::Delete, &["zones", zone, "instances", name], &id, None) {
        Ok(operation) => match operation.failed {
            Some(failed) => Err(Error { progress: Some(again.anew().write()), ..failed.error(&asked()) }),
            None => {
                let message = match machine.status() {
                    Status::Stopping => format!("{name} in {zone} is being deleted"),
                    _ => format!("deletes {name} in {zone}"),
                };
                Ok(pending(&again.running(What::Delete, &operation.name), message))
            }
        },
        Err(trouble) if trouble.is_not_found() => {
            Ok(pending(&again, format!("{name} in {zone} went meanwhile; looks again")))
        }
        // Somebody else's delete is as good: it is waited for.
        Err(trouble) if trouble.is_busy() => match api.under_way(machine.at(), "delete")? {
            Some(operation) => {
                let message = format!("{name} in {zone} is being deleted");
                Ok(pending(&again.running(What::Delete, &operation.name), message))
            }
            None => Err(asked().error(&trouble)),
        },
        Err(trouble) => Err(asked().error(&trouble)),
    }
}

fn pending(progress: &Progress, message: String) -> Deleted {
    Deleted::Pending(Pending { id: None, progress: progress.write(), poll_ms: POLL_MS, message })
}
