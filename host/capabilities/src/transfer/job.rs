//! One transfer from its first request to the volume's last byte.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use egress_runtime::capability::{Fill, Progress, TransferFailure, TransferFailureKind as Kind};
use http::{HeaderValue, Method, StatusCode, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Body;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::{
    State, failure,
    grant::TransferGrant,
    image, location, locked, text,
    web::{Answer, Web},
};
use crate::libvirt::{Filling, Host};

/// Times in a row that a connection may break without a byte of progress.
const MOST_CUTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(500);

type Failed = TransferFailure;

pub(super) struct Job {
    pub(super) host: Arc<Host>,
    pub(super) web: Arc<Web>,
    pub(super) fill: Fill,
    pub(super) url: Uri,
    pub(super) grant: TransferGrant,
    pub(super) state: Arc<Mutex<State>>,
    /// Whether the volume may be this transfer's.
    pub(super) made: AtomicBool,
}

/// What of it has come.
struct Source<'a> {
    job: &'a Job,
    answer: Answer,
    /// What must not change between two requests of one image.
    etag: Option<HeaderValue>,
    total: Option<u64>,
    read: u64,
    cuts: u32,
}

impl Job {
    pub(super) async fn run(self) {
        let ms = self.grant.timeouts.total_ms;
        let outcome = match tokio::time::timeout(Duration::from_millis(ms), self.fetch()).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let at = location::server(&self.url);
                Err(failure::plain(Kind::Timeout, format!("{at}: the image was not whole within {ms} ms")))
            }
        };
        let state = match outcome {
            Ok(progress) => State::Done(progress, Instant::now()),
            Err(mut failure) => {
                if self.made.load(Ordering::SeqCst)
                    && let Err(left) = self.host.remove(&self.fill.pool, &self.fill.volume).await
                {
                    failure.message =
                        format!("{}; and what was written stays: {}", failure.message, left.message);
                }
                State::Failed(failure)
            }
        };
        *locked(&self.state) = state;
    }

    async fn fetch(&self) -> Result<Progress, Failed> {
        let (pool, volume) = (&self.fill.pool, &self.fill.volume);
        let filling = self.host.filling(pool, volume).await.map_err(failure::of_libvirt)?;
        let Some(filling) = filling else { return Err(failure::exists(&self.fill)) };
        let mut source = Source::open(self).await?;
        // Looked at before anything is made.
        let mut head = Vec::new();
        while head.len() < image::HEAD
            && let Some(chunk) = source.next().await?
        {
            head.extend_from_slice(&chunk);
        }
        image::check(&self.fill.format, &head)?;
        self.write(filling, source, head.into()).await
    }

    async fn write(&self, filling: Filling, mut source: Source<'_>, head: Bytes) -> Result<Progress, Failed> {
        let mut filling = filling.begin(source.total, &self.made).await.map_err(failure::of_libvirt)?;
        let (mut hash, mut bytes, mut chunk) = (Sha256::new(), 0_u64, Some(head));
        while let Some(data) = chunk {
            hash.update(&data);
            bytes = bytes.saturating_add(data.len() as u64);
            filling.write(data).await.map_err(failure::of_libvirt)?;
            *locked(&self.state) = State::Begun(Progress { bytes, total: source.total, sha256: None });
            chunk = source.next().await?;
        }
        let digest = hex::encode(hash.finalize());
        if let Some(wanted) = self.fill.sha256.as_ref().filter(|wanted| !wanted.eq_ignore_ascii_case(&digest))
        {
            let at = location::server(&self.url);
            let message = format!("the image from {at} has the digest {digest}, not {wanted}");
            return Err(failure::plain(Kind::DigestMismatch, message));
        }
        filling.finish().await.map_err(failure::of_libvirt)?;
        Ok(Progress { bytes, total: Some(bytes), sha256: Some(digest) })
    }
}

impl<'a> Source<'a> {
    async fn open(job: &'a Job) -> Result<Self, Failed> {
        let answer = job.web.ask(Method::GET, &job.url, &[]).await?;
        if answer.status != StatusCode::OK {
            return Err(failure::of_status(&location::server(&job.url), answer.status));
        }
        let total = answer.body.size_hint().exact();
        // A weak one vouches for no bytes.
        let etag =
            answer.headers.get(header::ETAG).filter(|etag| !etag.as_bytes().starts_with(b"W/")).cloned();
        let source = Self { job, answer, etag, total, read: 0, cuts: 0 };
        source.fits(total.unwrap_or(0))?;
        Ok(source)
    }

    fn fits(&self, bytes: u64) -> Result<(), Failed> {
        let most = self.job.grant.max_bytes;
        if bytes <= most {
            return Ok(());
        }
        let message = format!(
            "the image from {} has {bytes} bytes or more; grants.transfer.maxBytes is {most}",
            location::server(&self.job.url)
        );
        Err(failure::plain(Kind::TooLarge, message))
    }

    /// The next bytes, over another connection if this one breaks.
    async fn next(&mut self) -> Result<Option<Bytes>, Failed> {
        let (at, ms) = (location::server(&self.job.url), self.job.grant.timeouts.stall_ms);
        loop {
            let frame = tokio::time::timeout(Duration::from_millis(ms), self.answer.body.frame()).await;
            let why = match frame {
                Ok(Some(Ok(frame))) => {
                    let Some(data) = frame.into_data().ok().filter(|data| !data.is_empty()) else { continue };
                    (self.read, self.cuts) = (self.read.saturating_add(data.len() as u64), 0);
                    self.fits(self.read)?;
                    return Ok(Some(data));
                }
                Ok(None) if self.total.is_none_or(|total| self.read == total) => return Ok(None),
                Ok(None) => failure::plain(Kind::Cut, format!("{at}: the image ended early")),
                Ok(Some(Err(error))) => {
                    failure::plain(Kind::Cut, format!("{at}: the connection broke: {error}"))
                }
                Err(_) => failure::plain(Kind::Timeout, format!("{at}: nothing came for {ms} ms")),
            };
            self.resume(why).await?;
        }
    }

    /// From where it broke off, if it is still the same image and the server can.
    async fn resume(&mut self, why: Failed) -> Result<(), Failed> {
        let Some(etag) = self.etag.clone() else { return Err(why) };
        self.cuts += 1;
        if self.cuts > MOST_CUTS {
            return Err(why);
        }
        tokio::time::sleep(PAUSE).await;
        let from = HeaderValue::from_str(&format!("bytes={}-", self.read)).map_err(|_| why.clone())?;
        let headers = [(header::RANGE, from), (header::IF_RANGE, etag.clone())];
        let answer = match self.job.web.ask(Method::GET, &self.job.url, &headers).await {
            Ok(answer) => answer,
            Err(failure) if matches!(failure.kind, Kind::Connect | Kind::Cut | Kind::Timeout) => {
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        let range = text(&answer.headers, header::CONTENT_RANGE).unwrap_or_default();
        let rest = range.strip_prefix(&format!("bytes {}-", self.read)).and_then(|rest| rest.split_once('/'));
        let total = rest.and_then(|(_, total)| total.parse::<u64>().ok());
        let is_same = answer.headers.get(header::ETAG).is_none_or(|now| *now == etag)
            && (self.total.is_none() || total.is_none() || self.total == total);
        if answer.status != StatusCode::PARTIAL_CONTENT || rest.is_none() || !is_same {
            return Err(why);
        }
        self.answer = answer;
        Ok(())
    }
}
