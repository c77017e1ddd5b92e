//! Watches: every change from a version on, in order, until the time that was asked for is over.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::json;
use tokio::{sync::watch, time::Instant};

use super::{
    Answer, metadata_of,
    requests::{Asked, Query},
};
use crate::objects::{Objects, Told};

/// What an API server takes where nobody says it.
const USUAL: Duration = Duration::from_secs(300);

struct Watch {
    objects: Arc<Objects>,
    asked: Asked,
    query: Query,
    /// Whether metadata is enough.
    partial: bool,
    at: u64,
    newest: watch::Receiver<u64>,
    until: Instant,
    /// It said that it can't go on.
    over: bool,
}

/// Begins one.
pub fn answer(objects: Arc<Objects>, asked: Asked, query: Query, partial: bool) -> Answer {
    let newest = objects.newest();
    let at = query.from.unwrap_or_else(|| *newest.borrow());
    let until = Instant::now() + query.seconds.map_or(USUAL, Duration::from_secs);
    let watch = Watch { objects, asked, query, partial, at, newest, until, over: false };
    let lines = stream::unfold(watch, |mut watch| async move {
        let lines = watch.next().await?;
        Some((lines, watch))
    });
    let frames = lines.map(|lines| Ok::<_, Infallible>(Frame::data(Bytes::from(lines))));
    Response::new(StreamBody::new(frames).boxed_unsync())
}

impl Watch {
    /// Some lines, or the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            if self.over {
                return None;
            }
            // First: a change that comes right now is not missed.
            self.newest.mark_unchanged();
            let Some(told) = self.objects.since(self.at) else {
                self.over = true;
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "code": 410, "reason": "Expired", "message": "too old resource version",
                });
                return Some(format!("{}\n", json!({ "type": "ERROR", "object": status })));
            };
            self.at = told.last().map_or(self.at, |told| told.version).max(self.at);
            let concerns = |told: &&Told| {
                told.key.kind == self.asked.kind
                    && self.asked.namespace.as_ref().is_none_or(|only| told.key.namespace == *only)
                    && self.query.takes(&told.key, &told.object)
            };
            let lines: String = told
                .iter()
                .filter(concerns)
                .map(|told| {
                    let object =
                        if self.partial { metadata_of(told.object.clone()) } else { told.object.clone() };
                    format!("{}\n", json!({ "type": told.what, "object": object }))
                })
                .collect();
            if !lines.is_empty() {
                return Some(lines);
            }
            tokio::select! {
                changed = self.newest.changed() => changed.ok()?,
                () = tokio::time::sleep_until(self.until) => return None,
            }
        }
    }
}
