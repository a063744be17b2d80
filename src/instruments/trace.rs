//! Spans: what was done when, within what.

use std::sync::Arc;
use std::time::SystemTime;

use futures::future::Either;
use opentelemetry::trace::{
    FutureExt as _, SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _, WithContext,
};
use opentelemetry::{Array, Context, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::SdkTracer;

use super::RemoteParent;

/// The attribute that names the conversation a span belongs to.
const CONVERSATION: &str = "gen_ai.conversation.id";
/// The attribute that says in what way something failed.
const ERROR_TYPE: &str = "error.type";

/// Starts spans. One that is off makes spans that are nothing and cost nothing.
#[derive(Debug, Clone, Default)]
pub struct Tracer {
    inner: Option<SdkTracer>,
    captures_content: bool,
}

/// The side of a call that a span is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request that somebody makes to us.
    Server,
    /// A request that we make.
    Client,
    /// Work of our own.
    Internal,
}

/// What the spans within a run have in common.
#[derive(Clone)]
pub struct Conversation {
    /// Its id.
    pub id: String,
    /// What makes a text of it one that may be traced.
    pub redact: Arc<dyn Fn(&str) -> String + Send + Sync>,
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Tracer {
    /// A tracer that hands spans on, with content where that is wanted.
    pub const fn new(inner: SdkTracer, captures_content: bool) -> Self {
        Self { inner: Some(inner), captures_content }
    }

    /// Starts a span within the one that this task is in.
    pub fn span(&self, kind: Kind, name: impl FnOnce() -> String) -> Span {
        self.start((kind, None), || (name(), Context::current()))
    }

    /// Starts the span of a request, within that of its caller.
    pub fn request(&self, name: &str, parent: impl FnOnce() -> Option<RemoteParent>) -> Span {
        self.start((Kind::Server, None), || {
            let within = match parent() {
                Some(RemoteParent(parent)) => Context::new().with_remote_span_context(parent),
                None => Context::new(),
            };
            (name.to_owned(), within)
        })
    }

    /// Starts the span of a conversation that began at a time, within nothing else.
    pub fn conversation(
        &self,
        began: SystemTime,
        named: impl FnOnce() -> (String, Conversation),
    ) -> Span {
        self.start((Kind::Internal, Some(began)), || {
            let (name, conversation) = named();
            (name, Context::new().with_value(conversation))
        })
    }

    fn start(
        &self,
        (kind, began): (Kind, Option<SystemTime>),
        named: impl FnOnce() -> (String, Context),
    ) -> Span {
        let Some(tracer) = &self.inner else { return Span(None) };
        let kind = match kind {
            Kind::Server => SpanKind::Server,
            Kind::Client => SpanKind::Client,
            Kind::Internal => SpanKind::Internal,
        };
        let (name, within) = named();
        let mut builder = SpanBuilder::from_name(name).with_kind(kind);
        builder.start_time = began;
        if let Some(conversation) = within.get::<Conversation>() {
            builder =
                builder.with_attributes([KeyValue::new(CONVERSATION, conversation.id.clone())]);
        }
        let span = tracer.build_with_context(builder, &within);
        Span(Some(Open { context: within.with_span(span), captures: self.captures_content }))
    }
}

/// Something that is under way; it ends when this value is dropped.
#[derive(Debug)]
pub struct Span(Option<Open>);

#[derive(Debug)]
struct Open {
    context: Context,
    captures: bool,
}

impl Span {
    /// Whether it goes anywhere: what is to be said of it need not be found out otherwise.
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Gives it another name, now that more is known.
    pub fn rename(&self, name: impl FnOnce() -> String) {
        if let Some(open) = &self.0 {
            open.context.span().update_name(name());
        }
    }

    /// Says something of it.
    pub fn set(&self, key: &'static str, value: impl Into<Value>) {
        if let Some(open) = &self.0 {
            open.context.span().set_attribute(KeyValue::new(key, value));
        }
    }

    /// Says something of it that is a list, of one.
    pub fn set_all(&self, key: &'static str, value: &'static str) {
        self.set(key, Value::Array(Array::String(vec![StringValue::from(value)])));
    }

    /// Says something of it that is content: only where the operator wants that, and only of a conversation,
    /// whose rules of redaction are known.
    pub fn content(
        &self,
        key: &'static str,
        value: impl FnOnce(&dyn Fn(&str) -> String) -> String,
    ) {
        let Some(open) = self.0.as_ref().filter(|open| open.captures) else { return };
        let Some(conversation) = open.context.get::<Conversation>() else { return };
        self.set(key, value(&*conversation.redact));
    }

    /// Says in what way it failed, in a word from a closed set.
    pub fn fail(&self, error_type: impl Into<Value>) {
        if let Some(open) = &self.0 {
            self.set(ERROR_TYPE, error_type);
            // The description would be a text of somebody else.
            open.context.span().set_status(Status::error(""));
        }
    }

    /// Lets something happen within it.
    pub fn within<F: Future>(&self, work: F) -> Either<F, WithContext<F>> {
        match &self.0 {
            None => Either::Left(work),
            Some(open) => Either::Right(work.with_context(open.context.clone())),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // What happens within it has clones of the context, and may be dropped later.
        self.context.span().end();
    }
}
