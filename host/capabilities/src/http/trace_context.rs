//! In which trace a request stands, as W3C's Trace Context writes it.
//!
//! A server that is told so knows a little of ours: that we trace, and which of its requests belong together. So
//! only those are told that the entry names. What a guest sets under this name is refused like all that is the
//! host's.

use http::{HeaderName, HeaderValue};
use opentelemetry::{Context, trace::TraceContextExt};

const NAME: HeaderName = HeaderName::from_static("traceparent");

/// None where nobody keeps traces.
pub(super) fn header() -> Option<(HeaderName, HeaderValue)> {
    let span = Context::map_current(|context| context.span().span_context().clone());
    if !span.is_valid() {
        return None;
    }
    let (trace, id, flags) = (span.trace_id(), span.span_id(), span.trace_flags().to_u8());
    HeaderValue::from_str(&format!("00-{trace}-{id}-{flags:02x}")).ok().map(|value| (NAME, value))
}
