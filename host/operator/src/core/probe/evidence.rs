//! Which URLs are up, as far as anybody's requests show.
//!
//! A URL is up at a time if a request passed that began then, be it another Proxy's or the operator's own. The
//! operator asks by itself only where a Proxy failed that nobody else explains, and seldom.

use std::{collections::HashMap, time::Duration};

use http::Uri;
use tokio::time::Instant;

#[derive(Default)]
struct Known {
    /// When the last request began that passed.
    up: Option<Instant>,
    /// When the first failed that began after that.
    failing: Option<Instant>,
    asked_directly: Option<Instant>,
    told_down: bool,
}

/// All URLs that were asked for.
#[derive(Default)]
pub struct Evidence(HashMap<Uri, Known>);

/// What people should know of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It answers nobody any more.
    Down,
    /// It answers again.
    Up,
}

impl Evidence {
    /// A request that began then passed.
    pub fn passed(&mut self, url: &Uri, began: Instant) -> Option<News> {
        let known = self.0.entry(url.clone()).or_default();
        known.up = known.up.max(Some(began));
        if known.failing.is_some_and(|failing| failing <= began) {
            known.failing = None;
        }
        (known.failing.is_none() && std::mem::take(&mut known.told_down)).then_some(News::Up)
    }

    /// A request that began then failed, and its proxy may not be at fault. Told once it goes on for so long.
    pub fn failed(&mut self, url: &Uri, began: Instant, long: Duration) -> Option<News> {
        let known = self.0.entry(url.clone()).or_default();
        if known.up.is_some_and(|up| up >= began) {
            return None;
        }
        let since = *known.failing.get_or_insert(began);
        let down = began.duration_since(since) >= long;
        (down && !std::mem::replace(&mut known.told_down, true)).then_some(News::Down)
    }

    /// Whether it was told that it answers nobody.
    pub fn is_down(&self, url: &Uri) -> bool {
        self.0.get(url).is_some_and(|known| known.told_down)
    }

    /// When the last request began that passed.
    pub fn up(&self, url: &Uri) -> Option<Instant> {
        self.0.get(url)?.up
    }

    /// Whether the operator is to ask by itself now about a request that began then; a yes counts as asked.
    pub fn ask_directly(&mut self, url: &Uri, began: Instant, every: Duration, now: Instant) -> bool {
        let known = self.0.entry(url.clone()).or_default();
        let explained = known.up.is_some_and(|up| up >= began);
        let lately = known.asked_directly.is_some_and(|at| now < at + every);
        if explained || lately {
            return false;
        }
        known.asked_directly = Some(now);
        true
    }
}
