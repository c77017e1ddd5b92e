//! One image in one registry: what it is, fetched, or pushed.

mod tokens;

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use serde::Deserialize;
use tokio::{sync::Mutex, time::timeout};

use crate::{
    access::Access,
    failure::{Kind, RegistryError, failed},
    manifest::{self, ACCEPT, Descriptor},
    reference::{Hash, Reference},
    web::{Answer, Asked, Web},
};

/// No manifest of a component has a hundredth of it; registries take as much.
const MOST_MANIFEST: u64 = 4 * 1024 * 1024;
const MOST_CONFIG: u64 = 4 * 1024 * 1024;
const MOST_ERROR: u64 = 64 * 1024;
/// The codes of the specification. No other word of a registry is repeated: it knows the login.
const CODES: [&str; 15] = [
    "BLOB_UNKNOWN",
    "BLOB_UPLOAD_INVALID",
    "BLOB_UPLOAD_UNKNOWN",
    "DIGEST_INVALID",
    "MANIFEST_BLOB_UNKNOWN",
    "MANIFEST_INVALID",
    "MANIFEST_UNKNOWN",
    "NAME_INVALID",
    "NAME_UNKNOWN",
    "SIZE_INVALID",
    "TAG_INVALID",
    "UNAUTHORIZED",
    "DENIED",
    "UNSUPPORTED",
    "TOOMANYREQUESTS",
];

type Failed = RegistryError;

/// What is asked of the registry; a login may have less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// To read.
    Pull,
    /// To read and to write.
    Push,
}

/// All bytes of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its manifest, whose hash is the image's digest.
    pub manifest: Bytes,
    /// What the manifest names.
    pub blobs: Vec<Bytes>,
}

impl Image {
    /// Its name for ever.
    pub fn digest(&self) -> Hash {
        Hash::of(&self.manifest)
    }
}

/// A component out of a registry.
#[derive(Clone, Debug)]
pub struct Pulled {
    /// The image's, which a tag may be moved from.
    pub digest: Hash,
    /// As it was pushed, perhaps packed.
    pub component: Bytes,
}

/// See the module.
pub struct Client {
    web: Web,
    reference: Reference,
    rights: Rights,
    /// What the registry took last: it is asked for a login once for all requests.
    authorization: Mutex<Option<HeaderValue>>,
}

impl Client {
    /// For this image. Nothing is asked yet.
    pub fn new(reference: Reference, rights: Rights, access: Access) -> Result<Self, Failed> {
        let web = Web::new(reference.host(), access)?;
        Ok(Self { web, reference, rights, authorization: Mutex::new(None) })
    }

    /// What the tag means now.
    pub async fn resolve(&self) -> Result<Hash, Failed> {
        if let Some(digest) = self.reference.digest() {
            return Ok(digest.clone());
        }
        self.bounded(async {
            let url = self.manifest_url()?;
            let answer = self.ask(Method::HEAD, url, &accept(), Bytes::new()).await?;
            let told = digest_of(&answer.headers);
            match (answer.status, told) {
                (StatusCode::OK, Some(digest)) => Ok(digest),
                // Without that header, or without HEAD.
                (StatusCode::OK | StatusCode::METHOD_NOT_ALLOWED, _) => Ok(Hash::of(&self.manifest().await?)),
                _ => Err(self.refused(answer, &self.reference.to_string()).await),
            }
        })
        .await
    }

    /// The component, if it has at most so many bytes.
    pub async fn pull(&self, most: u64) -> Result<Pulled, Failed> {
        self.bounded(async {
            let image = self.reference.to_string();
            let manifest = self.manifest().await?;
            let parts = manifest::parts(&image, &manifest)?;
            let component = self.blob(parts.component(&image)?, most).await?;
            Ok(Pulled { digest: Hash::of(&manifest), component })
        })
        .await
    }

    /// The whole image, if it holds a component and its layers together have at most so many bytes.
    pub async fn fetch(&self, most: u64) -> Result<Image, Failed> {
        self.bounded(async {
            let image = self.reference.to_string();
            let manifest = self.manifest().await?;
            let parts = manifest::parts(&image, &manifest)?;
            parts.component(&image)?;
            let mut blobs = vec![self.blob(&parts.config, MOST_CONFIG).await?];
            // Of all layers together: a manifest can name thousands.
            let mut left = most;
            for layer in &parts.layers {
                blobs.push(self.blob(layer, left).await?);
                left = left.saturating_sub(layer.size.max(1));
            }
            Ok(Image { manifest, blobs })
        })
        .await
    }

    /// Puts it there. What the registry has is not sent again.
    pub async fn push(&self, image: &Image) -> Result<Hash, Failed> {
        self.bounded(async {
            let mut sent = BTreeSet::new();
            for blob in &image.blobs {
                let digest = Hash::of(blob);
                if sent.insert(digest.clone()) {
                    self.push_blob(&digest, blob).await?;
                }
            }
            let digest = image.digest();
            let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(manifest::IMAGE))];
            let answer =
                self.ask(Method::PUT, self.manifest_url()?, &headers, image.manifest.clone()).await?;
            match answer.status {
                status if status.is_success() => match digest_of(&answer.headers) {
                    Some(told) if told != digest => Err(failed(
                        Kind::DigestDiffers,
                        format!("{}: it keeps {told}, and {digest} was sent", self.reference),
                    )),
                    _ => Ok(digest),
                },
                _ => Err(self.refused(answer, &self.reference.to_string()).await),
            }
        })
        .await
    }

    async fn bounded<T>(&self, work: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
        let most = self.web.access().timeouts.whole;
        let late = || {
            let message = format!("{}: not done within {} ms", self.reference, most.as_millis());
            failed(Kind::Unreachable, message)
        };
        timeout(most, work).await.unwrap_or_else(|_| Err(late()))
    }

    fn manifest_url(&self) -> Result<Uri, Failed> {
        let (repository, wanted) = (self.reference.repository(), self.reference.wanted());
        self.web.url(&format!("/v2/{repository}/manifests/{wanted}"))
    }

    async fn manifest(&self) -> Result<Bytes, Failed> {
        let answer = self.ask(Method::GET, self.manifest_url()?, &accept(), Bytes::new()).await?;
        if answer.status != StatusCode::OK {
            return Err(self.refused(answer, &self.reference.to_string()).await);
        }
        let what = format!("the manifest of {}", self.reference);
        let bytes = answer.body(&what, MOST_MANIFEST, self.web.access().timeouts.stall).await?;
        match self.reference.digest() {
            Some(wanted) if *wanted != Hash::of(&bytes) => Err(failed(
                Kind::DigestDiffers,
                format!("{}: the registry sent a manifest of {}", self.reference, Hash::of(&bytes)),
            )),
            _ => Ok(bytes),
        }
    }

    async fn blob(&self, part: &Descriptor, most: u64) -> Result<Bytes, Failed> {
        let image = self.reference.to_string();
        let wanted = part.hash(&image)?;
        let what = format!("{image}: the part {wanted}");
        if part.size > most {
            let message = format!("{what} has {} bytes, and {most} is the most that may come", part.size);
            return Err(failed(Kind::TooLarge, message));
        }
        let url = self.web.url(&format!("/v2/{}/blobs/{wanted}", self.reference.repository()))?;
        let answer = self.ask(Method::GET, url, &[], Bytes::new()).await?;
        if answer.status != StatusCode::OK {
            return Err(self.refused(answer, &what).await);
        }
        // As many as the manifest promised: more could not be the same.
        let bytes = answer.body(&what, part.size, self.web.access().timeouts.stall).await?;
        match Hash::of(&bytes) {
            found if found == wanted => Ok(bytes),
            found => {
                Err(failed(Kind::DigestDiffers, format!("{what} came as {found} ({} bytes)", bytes.len())))
            }
        }
    }

    async fn push_blob(&self, digest: &Hash, blob: &Bytes) -> Result<(), Failed> {
        let repository = self.reference.repository();
        let url = self.web.url(&format!("/v2/{repository}/blobs/{digest}"))?;
        let known = self.ask(Method::HEAD, url, &[], Bytes::new()).await?;
        if known.status == StatusCode::OK {
            return Ok(());
        }
        let what = format!("the part {digest} of {}", self.reference);
        let begin = self.web.url(&format!("/v2/{repository}/blobs/uploads/"))?;
        let begun = self.ask(Method::POST, begin.clone(), &[], Bytes::new()).await?;
        if begun.status != StatusCode::ACCEPTED {
            return Err(self.refused(begun, &what).await);
        }
        let to = begun.headers.get(header::LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
        let separator = if to.contains('?') { '&' } else { '?' };
        let to = self.web.read(&begin, &format!("{to}{separator}digest={digest}"))?;
        let headers = [(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))];
        let sent = self.ask(Method::PUT, to, &headers, blob.clone()).await?;
        match sent.status {
            status if status.is_success() => Ok(()),
            _ => Err(self.refused(sent, &what).await),
        }
    }

    /// Asks, and once more with a login, if that is what the registry wants.
    async fn ask(
        &self,
        method: Method,
        url: Uri,
        headers: &[(header::HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<Answer, Failed> {
        let mut asked = Asked { method, url, headers: headers.to_vec(), body };
        let shown = self.authorization.lock().await.clone();
        let plain = asked.headers.len();
        asked.headers.extend(shown.map(|shown| (header::AUTHORIZATION, shown)));
        let answer = self.web.follow(&asked).await?;
        // Whom it sends to may not ask for the login.
        if answer.status != StatusCode::UNAUTHORIZED || !answer.is_home {
            return Ok(answer);
        }
        let Some(authorization) = self.authorize(&answer.headers).await? else { return Ok(answer) };
        *self.authorization.lock().await = Some(authorization.clone());
        asked.headers.truncate(plain);
        asked.headers.push((header::AUTHORIZATION, authorization));
        self.web.follow(&asked).await
    }

    async fn refused(&self, answer: Answer, what: &str) -> Failed {
        let (status, headers) = (answer.status, answer.headers.clone());
        let at = answer.at.clone();
        let stall = self.web.access().timeouts.stall;
        let codes = match answer.body("the error", MOST_ERROR, stall).await {
            Ok(body) => codes(&body),
            Err(_) => Vec::new(),
        };
        let said = if codes.is_empty() { String::new() } else { format!(" {}", codes.join(", ")) };
        let who = self.web.access().login.as_ref().map_or("without a login".to_owned(), |login| login.who());
        let asked = if self.rights == Rights::Push { "write" } else { "read" };
        let (kind, message) = match status.as_u16() {
            401 if self.web.access().login.is_none() => {
                (Kind::Unauthorized, format!("{what}: {at} wants a login, and was asked {who} (401{said})"))
            }
            401 => (Kind::Unauthorized, format!("{what}: {at} does not take the login ({who}; 401{said})")),
            403 => (Kind::Denied, format!("{what}: {at} does not let {who} {asked} it (403{said})")),
            404 => (Kind::NotFound, format!("{what}: there is none at {at} (404{said})")),
            429 => {
                (Kind::TooManyRequests, format!("{what}: {at} has had too many requests ({who}; 429{said})"))
            }
            code => (Kind::RegistryFailed, format!("{what}: {at} answered {code}{said}")),
        };
        RegistryError { wait: wait(&headers), ..failed(kind, message) }
    }
}

fn accept() -> [(header::HeaderName, HeaderValue); 1] {
    [(header::ACCEPT, HeaderValue::from_static(ACCEPT))]
}

fn digest_of(headers: &HeaderMap) -> Option<Hash> {
    Hash::read(headers.get("docker-content-digest")?.to_str().ok()?)
}

/// In seconds; a date needs two clocks that agree.
fn wait(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u64 = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.min(3600)))
}

fn codes(body: &[u8]) -> Vec<&'static str> {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<One>,
    }
    #[derive(Deserialize)]
    struct One {
        code: String,
    }
    let read: Option<Errors> = serde_json::from_slice(body).ok();
    let said = read.map(|read| read.errors).unwrap_or_default();
    CODES.into_iter().filter(|code| said.iter().any(|one| one.code == *code)).collect()
}
