//! One attempt at a model call, with everything that went over the wire in it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use reqwest::Request;
use reqwest::header::HeaderName;

use crate::clock::SharedClock;
use crate::domain::message::Reply;
use crate::domain::model::ModelError;
use crate::wire::Encoded;

/// What an attempt sent, what came back and what it was read as. A failure is told as fully as a
/// reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// The reply, or whatever kept a whole one from arriving within the call's timeout.
    ///
    /// The call ids of a reply are provisional, by position; its tools have the names that the agent
    /// knows them by.
    pub outcome: Result<Reply, ModelError>,
    /// The request body as sent, and where its bytes come from.
    pub request: Arc<Encoded>,
    /// Path and query of the address, without its host; empty when the address was none.
    pub endpoint: String,
    /// The names of the request's headers in lower case, sorted. Their values may be secrets.
    pub header_names: Vec<String>,
    /// When it began.
    pub sent_at: DateTime<Utc>,
    /// How long it took until the first byte of the answer's body; `None` when there was none.
    pub first_byte_after: Option<Duration>,
    /// How long it took in all.
    pub took: Duration,
    /// The answer's status; `None` when there was no answer.
    pub status: Option<u16>,
    /// The media type of the answer's body, as its server named it.
    pub content_type: Option<String>,
    /// The answer's body as far as it came and within the bounds of reading it, after any content
    /// encoding is undone.
    pub response: Bytes,
}

impl Attempt {
    /// The request body as sent.
    pub fn body(&self) -> Bytes {
        shared(&self.request)
    }
}

/// Headers that the HTTP client adds by itself.
const ADDED_HEADERS: &[&str] = &["content-length", "host", "user-agent"];

/// What is known of an attempt so far. It lives outside the future that has a deadline, so that what
/// came before the deadline is not lost with it.
#[derive(Debug)]
pub(super) struct Capture {
    clock: SharedClock,
    began: Duration,
    sent_at: DateTime<Utc>,
    request: Arc<Encoded>,
    endpoint: String,
    header_names: Vec<String>,
    first_byte_after: Option<Duration>,
    status: Option<u16>,
    content_type: Option<String>,
    body: BytesMut,
}

impl Capture {
    /// Begins now.
    pub(super) fn of(clock: &SharedClock, request: Encoded) -> Self {
        Self {
            began: clock.monotonic(),
            sent_at: clock.now(),
            clock: Arc::clone(clock),
            request: Arc::new(request),
            endpoint: String::new(),
            header_names: Vec::new(),
            first_byte_after: None,
            status: None,
            content_type: None,
            body: BytesMut::new(),
        }
    }

    /// The request body.
    pub(super) fn request(&self) -> Bytes {
        shared(&self.request)
    }

    /// The request with where its bytes come from.
    pub(super) fn encoded(&self) -> &Encoded {
        &self.request
    }

    /// Notes where a request goes and the names of its headers.
    pub(super) fn sending(&mut self, request: &Request) {
        let url = request.url();
        url.path().clone_into(&mut self.endpoint);
        if let Some(query) = url.query() {
            self.endpoint.push('?');
            self.endpoint.push_str(query);
        }
        let names = request.headers().keys().map(HeaderName::as_str);
        let names = names.chain(ADDED_HEADERS.iter().copied());
        self.header_names = names.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect();
    }

    /// Notes the head of the answer.
    pub(super) fn answered(&mut self, status: u16, content_type: &str) {
        self.status = Some(status);
        self.content_type = (!content_type.is_empty()).then(|| content_type.to_owned());
    }

    /// Keeps bytes of the body as long as it stays within a bound, and says whether it does.
    pub(super) fn keep(&mut self, bytes: &[u8], bound: usize) -> bool {
        if self.first_byte_after.is_none() && !bytes.is_empty() {
            self.first_byte_after = Some(self.elapsed());
        }
        let room = bound.saturating_sub(self.body.len());
        let kept = bytes.get(..room).unwrap_or(bytes);
        self.body.extend_from_slice(kept);
        bytes.len() <= room
    }

    /// The body as far as it came.
    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The whole attempt, now that it is over.
    pub(super) fn over(self, outcome: Result<Reply, ModelError>) -> Attempt {
        Attempt {
            took: self.elapsed(),
            outcome,
            request: self.request,
            endpoint: self.endpoint,
            header_names: self.header_names,
            sent_at: self.sent_at,
            first_byte_after: self.first_byte_after,
            status: self.status,
            content_type: self.content_type,
            response: self.body.freeze(),
        }
    }

    fn elapsed(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.began)
    }
}

/// The body of a request that keeps the whole of it, so that nothing is copied.
struct Body(Arc<Encoded>);

impl AsRef<[u8]> for Body {
    fn as_ref(&self) -> &[u8] {
        &self.0.body
    }
}

fn shared(request: &Arc<Encoded>) -> Bytes {
    Bytes::from_owner(Body(Arc::clone(request)))
}
