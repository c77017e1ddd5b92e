//! Components out of OCI registries.
//!
//! A tag is looked up now and then, and at each pass of its entry; what it means is fetched once. A registry that is
//! gone changes nothing for what runs: the entry shows why nothing newer can be had, and asks ever more seldom. Pauses
//! are spread, since many entries, and many clusters, lose a registry at the same moment and would find it together.

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use egress_capabilities::Secrets;
use egress_registry::{Access, Client, DockerConfig, Hash, Kind, Login, RegistryError, Rights};
use tokio::sync::watch;
use tracing::debug;

use super::{NotFetched, Pace, Raw, Version, refusal, tell};
use crate::config::OciImage;

/// What may be mended by hand at any moment, and costs no registry anything to ask for.
const SECRET: Pace = (Duration::from_secs(2), Duration::from_secs(15));
/// Other than that.
const REGISTRY: Pace = (Duration::from_secs(5), Duration::from_secs(300));
/// How often one pass asks, and the pause between.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);
/// Of components that are kept in memory, so that an entry whose config changes fetches nothing again.
const MOST_KEPT: usize = 64 * 1024 * 1024;

/// All registries.
#[derive(Clone)]
pub(super) struct Registries {
    secrets: Arc<dyn Secrets>,
    timeouts: egress_registry::Timeouts,
    kept: Arc<Mutex<Vec<(Hash, Bytes)>>>,
}

impl Registries {
    pub(super) fn new(secrets: Arc<dyn Secrets>) -> Self {
        Self { secrets, timeouts: egress_registry::Timeouts::default(), kept: Arc::default() }
    }

    /// Tells when the tag means something else, or can't be looked up any more. Ends never.
    pub(super) async fn watch(&self, image: &OciImage, changes: &watch::Sender<Version>) {
        let Some(every) = image.every else { return std::future::pending().await };
        let (mut wait, mut failures) = (spread(every), 0);
        loop {
            // The entry's own pass looks first.
            tokio::time::sleep(wait).await;
            let (version, rest) = match self.resolve(image).await {
                Ok(digest) => {
                    failures = 0;
                    (digest.to_string(), Duration::ZERO)
                }
                Err(not) => {
                    debug!(image = %image.reference, message = not.refusal.message, "a tag was not looked up");
                    let (first, longest) = not.retry.unwrap_or(REGISTRY);
                    let rest = first.saturating_mul(1 << failures).min(longest);
                    failures = (failures + 1).min(10);
                    // No digest, so the entry looks for itself, and shows what it finds.
                    (not.refusal.reason.to_owned(), rest)
                }
            };
            wait = spread(every).max(rest);
            tell(changes, Some(version));
        }
    }

    /// What the image means now, and its component.
    pub(super) async fn read(&self, image: &OciImage, most: u64) -> Result<Raw, NotFetched> {
        let digest = self.resolve(image).await?;
        let fixed = image.reference.at(digest.clone());
        let component = match self.recall(&digest) {
            Some(component) => component,
            None => {
                let fixed = OciImage { reference: fixed.clone(), ..image.clone() };
                let pulled = self.often(&fixed, |client| async move { client.pull(most).await }).await?;
                self.keep(&pulled.digest, &pulled.component);
                pulled.component
            }
        };
        Ok((component.to_vec(), format!("image {fixed}"), Some(digest.to_string())))
    }

    async fn resolve(&self, image: &OciImage) -> Result<Hash, NotFetched> {
        match image.reference.digest() {
            Some(digest) => Ok(digest.clone()),
            None => self.often(image, |client| async move { client.resolve().await }).await,
        }
    }

    /// Until it succeeds, or asking again at once would not help.
    async fn often<T, Asked: Future<Output = Result<T, RegistryError>>>(
        &self,
        image: &OciImage,
        ask: impl Fn(Client) -> Asked,
    ) -> Result<T, NotFetched> {
        let mut attempt = 1;
        loop {
            let access = self.access(image).await?;
            let asked = match Client::new(image.reference.clone(), Rights::Pull, access) {
                Ok(client) => ask(client).await,
                Err(error) => Err(error),
            };
            match asked {
                Ok(done) => return Ok(done),
                Err(error) if attempt < ATTEMPTS && again(&error) => {
                    tokio::time::sleep(spread(PAUSE * attempt)).await;
                    attempt += 1;
                }
                Err(error) => return Err(not_fetched(image, &error)),
            }
        }
    }

    /// Read anew each time: a login that was changed counts at once.
    async fn access(&self, image: &OciImage) -> Result<Access, NotFetched> {
        let ca = match &image.ca {
            None => None,
            Some(place) => Some(place.read(Some(&*self.secrets)).await.map_err(|no| {
                let reason = if no.missing { "CaMissing" } else { "CaUnreadable" };
                secret(reason, format!("{}: who signs for its registry: {}", image.reference, no.message))
            })?),
        };
        Ok(Access {
            login: self.login(image).await?,
            ca,
            plain_http: image.plain_http,
            inside: image.inside.clone(),
            timeouts: self.timeouts,
        })
    }

    async fn login(&self, image: &OciImage) -> Result<Option<Login>, NotFetched> {
        let Some(place) = &image.login else { return Ok(None) };
        let (at, shown, registry) = (&image.reference, place.place(), image.reference.registry());
        let text = place.read(Some(&*self.secrets)).await.map_err(|no| match (no.missing, &place.secret_ref) {
            (true, Some(named)) => {
                let name = &named.name;
                let message = format!(
                    "{at}: there is no Secret {name} in the operator's namespace, or it has no key {}; create it: \
                     kubectl create secret docker-registry {name} --docker-server={registry} --docker-username=... \
                     --docker-password=...",
                    named.key
                );
                secret("PullSecretMissing", message)
            }
            (true, None) => secret("PullSecretMissing", format!("{at}: {}", no.message)),
            (false, _) => {
                let message = format!("{at}: {}; it is tried again; the operator needs the right to get it", no.message);
                secret("PullSecretUnreadable", message)
            }
        })?;
        let broken = |why: &dyn std::fmt::Display| {
            secret("PullSecretInvalid", format!("{at}: {shown}: {why}; write it anew"))
        };
        let config = DockerConfig::read(text.as_bytes()).map_err(|error| broken(&error))?;
        match config.login(at).map_err(|error| broken(&error))? {
            Some(Ok(login)) => Ok(Some(login)),
            Some(Err(helper)) => {
                let helper = helper.0;
                Err(broken(&format!(
                    "it leaves the login to a program, {helper}, which the operator does not run"
                )))
            }
            None => {
                let others = config.registries().join(", ");
                let message = format!(
                    "{at}: {shown} has no login for {registry}, but for: {others}; add one, or name no Secret where \
                     everybody may read the image"
                );
                Err(secret("PullSecretOther", message))
            }
        }
    }

    fn recall(&self, digest: &Hash) -> Option<Bytes> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, _)| known == digest).map(|(_, component)| component.clone())
    }

    /// The oldest make room.
    fn keep(&self, digest: &Hash, component: &Bytes) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((digest.clone(), component.clone()));
        while kept.iter().map(|(_, component)| component.len()).sum::<usize>() > MOST_KEPT {
            kept.remove(0);
        }
    }
}

/// Whether the same request may be answered better in a moment.
fn again(error: &RegistryError) -> bool {
    error.kind.is_transient() && error.kind != Kind::TooManyRequests
}

fn secret(reason: &'static str, message: String) -> NotFetched {
    NotFetched { refusal: refusal(reason, message), retry: Some(SECRET), version: None }
}

fn not_fetched(image: &OciImage, error: &RegistryError) -> NotFetched {
    let message = format!("{error}; {}", way_out(image, error.kind));
    let (first, longest) = REGISTRY;
    // What is asked for is the least.
    let first = error.wait.map_or_else(|| spread(first), |wait| spread(wait).max(wait));
    NotFetched {
        refusal: refusal(error.kind.reason(), message),
        retry: Some((first, spread(longest).max(first))),
        version: None,
    }
}

/// In the words of an entry.
fn way_out(image: &OciImage, kind: Kind) -> String {
    let place = image.login.as_ref().map(|place| place.place());
    match (kind, place) {
        (Kind::Unauthorized, None) => {
            "name a Secret with its login in module.oci.pullSecret; some registries say this of what is not there, so \
             check the name too"
                .to_owned()
        }
        (Kind::Unauthorized, Some(place)) => {
            format!("write {place} anew; some registries say this of what is not there, so check the name too")
        }
        (Kind::Denied, _) => "give that login the right to read it".to_owned(),
        (Kind::NotFound, _) => "push it, or mend module.oci.ref".to_owned(),
        (Kind::NoWasmLayer, _) => {
            "push a component there (epo provider push), or name another image in module.oci.ref".to_owned()
        }
        (Kind::ManifestInvalid, _) => "name an image that holds a component in module.oci.ref".to_owned(),
        (Kind::DigestDiffers, _) => {
            "something between here and there changes what is sent; ask who runs the registry".to_owned()
        }
        (Kind::TooLarge, _) => "make the component smaller (strip it, wasm-opt -Oz)".to_owned(),
        (Kind::TlsTrust, _) => {
            "name who signs for it in module.oci.ca; a registry without TLS needs module.oci.plainHttp".to_owned()
        }
        (Kind::Unreachable, _) => {
            "it is tried again; is the registry up, and does a NetworkPolicy let the operator reach it?".to_owned()
        }
        (Kind::TooManyRequests, None) => {
            "it is tried again later; with a login (module.oci.pullSecret) more may be allowed".to_owned()
        }
        (Kind::TooManyRequests, Some(_)) => {
            "it is tried again later; a larger module.oci.everySeconds asks less often".to_owned()
        }
        (Kind::RegistryFailed, _) => "it is tried again; see the registry's own log".to_owned(),
        (Kind::RedirectRefused, _) => "if that is meant, list the address in module.oci.inside".to_owned(),
    }
}

/// A tenth more or less.
fn spread(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.9..1.1))
}
