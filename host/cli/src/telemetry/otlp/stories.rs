//! One trace for each story: an incarnation's way up, or its way out.
//!
//! Its passes become children of a first span whose ids everybody can derive, so they stand in one trace whichever
//! process took them. That span itself is written last, by the pass that ends the story, since only then it is known
//! how long it took. A look at what runs is a trace of its own, with a link to the story that made it.

use std::{cell::Cell, time::SystemTime};

use egress_operator::core::story::{Belongs, Story, Teller};
use opentelemetry::{
    Context, KeyValue,
    trace::{
        Link, Span as _, SpanContext, SpanId, SpanKind, TraceContextExt, TraceFlags, TraceId, TraceState,
        Tracer,
    },
};
use opentelemetry_sdk::trace::{
    IdGenerator, RandomIdGenerator, Sampler, SamplingDecision, SamplingResult, SdkTracer, ShouldSample,
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

thread_local! {
    /// What the next span of this thread is called, if it must not be drawn.
    static CHOSEN: Cell<Option<(TraceId, SpanId)>> = const { Cell::new(None) };
}

/// Tells stories to a tracer.
pub struct Stories(pub SdkTracer);

fn ids(story: &Story) -> (TraceId, SpanId) {
    let (trace, span) = story.ids();
    (TraceId::from_bytes(trace), SpanId::from_bytes(span))
}

fn context(story: &Story) -> SpanContext {
    let (trace, span) = ids(story);
    // Remote: whether it is sampled is asked anew of each, and depends on the trace's id alone.
    SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::default())
}

impl Teller for Stories {
    fn pass(&self, span: &Span, belongs: &Belongs) {
        match belongs {
            // It fails for a span that nobody records, which has no need of it.
            Belongs::To(story) => {
                let _ = span.set_parent(Context::new().with_remote_span_context(context(story)));
            }
            Belongs::After(story) if story.incarnation > 0 => span.add_link(context(story)),
            Belongs::After(_) | Belongs::Nowhere => {}
        }
    }

    fn ended(&self, story: &Story, since: Option<SystemTime>) {
        let now = SystemTime::now();
        let attributes = [
            KeyValue::new("egress.proxy", story.key.to_string()),
            KeyValue::new("egress.incarnation", i64::from(story.incarnation)),
        ];
        let builder = self.0.span_builder(story.plot.as_str()).with_kind(SpanKind::Internal);
        let builder = builder.with_start_time(since.map_or(now, |since| since.min(now)));
        let builder = builder.with_attributes(attributes);
        CHOSEN.set(Some(ids(story)));
        let mut span = builder.start_with_context(&self.0, &Context::new());
        CHOSEN.set(None);
        span.end_with_timestamp(now);
    }
}

/// Random, but for the first span of a story.
#[derive(Debug, Default)]
pub struct Ids(RandomIdGenerator);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        CHOSEN.get().map_or_else(|| self.0.new_trace_id(), |(trace, _)| trace)
    }

    fn new_span_id(&self) -> SpanId {
        CHOSEN.get().map_or_else(|| self.0.new_span_id(), |(_, span)| span)
    }
}

/// So many of all traces, and each of them whole: what decides is its id, and after that its first span.
#[derive(Clone, Debug)]
pub struct Sampling(pub f64);

impl ShouldSample for Sampling {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let parent = parent.filter(|parent| parent.has_active_span());
        match parent.map(|parent| parent.span().span_context().clone()) {
            Some(parent) if !parent.is_remote() => SamplingResult {
                decision: match parent.is_sampled() {
                    true => SamplingDecision::RecordAndSample,
                    false => SamplingDecision::Drop,
                },
                attributes: Vec::new(),
                trace_state: parent.trace_state().clone(),
            },
            _ => Sampler::TraceIdRatioBased(self.0).should_sample(None, trace, name, kind, attributes, links),
        }
    }
}

#[cfg(test)]
mod tests {
    use egress_operator::core::{store::ProxyKey, story::Plot};
    use opentelemetry::trace::TracerProvider;
    use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanProcessor};
    use std::sync::{Arc, Mutex};
    use tracing::info_span;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Debug, Default)]
    struct Kept(Arc<Mutex<Vec<SpanData>>>);

    impl SpanProcessor for Kept {
        fn on_start(&self, _: &mut opentelemetry_sdk::trace::Span, _: &Context) {}

        fn on_end(&self, span: SpanData) {
            self.0.lock().unwrap().push(span);
        }

        fn force_flush(&self) -> opentelemetry_sdk::error::OTelSdkResult {
            Ok(())
        }

        fn shutdown_with_timeout(&self, _: std::time::Duration) -> opentelemetry_sdk::error::OTelSdkResult {
            Ok(())
        }
    }

    fn story(incarnation: u32) -> Story {
        let key = ProxyKey { namespace: "team-a".to_owned(), name: "web".to_owned() };
        Story { key, uid: "u".to_owned(), incarnation, plot: Plot::Create }
    }

    /// What is kept of this, with so many of all traces.
    fn kept(share: f64, told: impl FnOnce(&Stories)) -> Vec<SpanData> {
        let kept = Kept::default();
        let provider = SdkTracerProvider::builder()
            .with_id_generator(Ids::default())
            .with_sampler(Sampling(share))
            .with_span_processor(kept.clone())
            .build();
        let tracer = provider.tracer("test");
        let layer = tracing_opentelemetry::layer().with_tracer(tracer.clone());
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || told(&Stories(tracer)));
        kept.0.lock().unwrap().clone()
    }

    fn pass(stories: &Stories, belongs: &Belongs) {
        let span = info_span!("reconcile");
        stories.pass(&span, belongs);
        span.in_scope(|| drop(info_span!("provider.create").entered()));
    }

    #[test]
    fn every_pass_of_a_story_is_in_its_trace_below_its_first_span() {
        let began = SystemTime::now() - std::time::Duration::from_secs(60);
        let spans = kept(1.0, |stories| {
            pass(stories, &Belongs::To(story(1)));
            pass(stories, &Belongs::To(story(1)));
            stories.ended(&story(1), Some(began));
            pass(stories, &Belongs::Nowhere);
        });
        let of = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
        let [first] = of("proxy.create")[..] else { panic!("{spans:?}") };
        let (trace, id) = ids(&story(1));
        assert_eq!((first.span_context.trace_id(), first.span_context.span_id()), (trace, id));
        assert_eq!((first.parent_span_id, first.start_time), (SpanId::INVALID, began));
        let (passes, calls) = (of("reconcile"), of("provider.create"));
        assert_eq!((passes.len(), calls.len()), (3, 3));
        for (pass, call) in passes.iter().zip(&calls).take(2) {
            assert_eq!((pass.span_context.trace_id(), pass.parent_span_id), (trace, id));
            assert_eq!(call.span_context.trace_id(), trace);
            assert_eq!(call.parent_span_id, pass.span_context.span_id());
        }
        // Ids are chosen for that one span, and drawn again after it.
        assert_ne!(passes[2].span_context.trace_id(), trace);
        assert_eq!(passes[2].parent_span_id, SpanId::INVALID);
    }

    #[test]
    fn a_look_is_a_trace_of_its_own_with_a_link() {
        let spans = kept(1.0, |stories| pass(stories, &Belongs::After(story(2))));
        let look = spans.iter().find(|span| span.name == "reconcile").unwrap();
        let (trace, id) = ids(&story(2));
        assert_ne!(look.span_context.trace_id(), trace);
        let link = &look.links.links[0].span_context;
        assert_eq!((link.trace_id(), link.span_id()), (trace, id));
    }

    #[test]
    fn a_story_is_kept_whole_or_not_at_all() {
        let (mut whole, mut none) = (0, 0);
        for incarnation in 1..=64 {
            let spans = kept(0.5, |stories| {
                pass(stories, &Belongs::To(story(incarnation)));
                stories.ended(&story(incarnation), None);
            });
            match spans.len() {
                3 => whole += 1,
                0 => none += 1,
                other => panic!("{other} of three: {spans:?}"),
            }
        }
        assert!(whole > 8 && none > 8, "{whole} whole, {none} not at all");
    }
}
