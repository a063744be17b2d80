//! Reading an answer: an error by its status, a stream, or a whole body.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use tokio::time::{Instant, timeout, timeout_at};

use super::Bounds;
use super::attempt::Capture;
use super::peer::Peer;
use super::retry;
use crate::domain::message::Reply;
use crate::domain::model::{ModelError, ModelErrorKind, Provider};
use crate::wire::{self, DeltaPiece, Framing, Profile, RetryHints, StreamDecoder};

/// Reads one answer, and keeps its bytes.
pub(super) struct Reader<'c> {
    pub(super) provider: Provider,
    pub(super) profile: Profile,
    pub(super) bounds: Bounds,
    pub(super) peer: Peer,
    pub(super) capture: &'c mut Capture,
}

/// What an answer should look like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// How it is framed if it is a stream.
    pub(super) framing: Framing,
    /// Whether a stream is asked for.
    pub(super) streams: bool,
}

impl Asked {
    /// Whether an answer is a stream. Some servers stream unasked, some answer a request for a stream
    /// with a plain body or a page, and some put the wrong name on what they send: where the first
    /// byte tells, it is believed before the content type, and what says nothing about itself is taken
    /// for what was asked.
    fn is_stream(self, content_type: &str, first: Option<u8>) -> bool {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let named = essence.eq_ignore_ascii_case(self.framing.media_type());
        match (self.framing, first) {
            (Framing::Events | Framing::EventStream, Some(b'{' | b'[')) | (_, Some(b'<')) => false,
            (Framing::Events, Some(b'd' | b'e' | b':')) => true,
            // A stream of one line is a whole body too, and is read as one.
            (Framing::Lines, Some(b'{')) => named || self.streams,
            _ => named || (self.streams && !is_document(essence)),
        }
    }
}

/// Whether a media type is one of whole documents.
fn is_document(essence: &str) -> bool {
    let essence = essence.to_ascii_lowercase();
    essence.contains("json") || essence.contains("html")
}

impl Reader<'_> {
    /// The reply.
    pub(super) async fn read(
        mut self,
        asked: Asked,
        now: DateTime<Utc>,
        on_delta: &mut (dyn FnMut(DeltaPiece) + Send),
    ) -> Result<Reply, ModelError> {
        if !(200..300).contains(&self.peer.status) {
            return Err(self.refusal(now).await);
        }
        let first = self.first_byte().await?;
        if asked.is_stream(&self.peer.content_type, first) {
            return self.read_events(on_delta).await;
        }
        while let Some(bytes) = self.next(true).await? {
            self.keep(&bytes)?;
        }
        wire::decode_for(self.provider, &self.profile, self.capture.body())
    }

    /// Reads up to the first byte of the body that is not white space, which keeps connections alive.
    /// Every byte is looked at once, however much white space there is.
    async fn first_byte(&mut self) -> Result<Option<u8>, ModelError> {
        while let Some(bytes) = self.next(self.has_begun()).await? {
            self.keep(&bytes)?;
            let first = bytes.iter().copied().find(|byte| !byte.is_ascii_whitespace());
            if first.is_some() {
                return Ok(first);
            }
        }
        Ok(None)
    }

    /// Reads the beginning of an error's body; that it breaks off takes nothing from its status.
    async fn refusal(mut self, now: DateTime<Utc>) -> ModelError {
        while self.capture.body().len() < self.bounds.error {
            let Ok(Some(bytes)) = self.next(true).await else { break };
            self.capture.keep(&bytes, self.bounds.error);
        }
        let hints = RetryHints {
            retry_after_ms: self.peer.retry_after_ms,
            retry_after: self.peer.retry_after,
            should_retry: self.peer.should_retry,
            error_type: self.peer.error_type,
            now,
        };
        let status = self.peer.status;
        let mut error = wire::classify(self.provider, status, &hints, self.capture.body());
        if error.kind == ModelErrorKind::RateLimit {
            let counters = &self.peer.counters;
            let hint = retry::reset_ms(counters.iter().map(|(left, reset)| (&**left, &**reset)));
            error.retry_after_ms = error.retry_after_ms.or(hint);
        }
        error
    }

    async fn read_events(
        mut self,
        on_delta: &mut (dyn FnMut(DeltaPiece) + Send),
    ) -> Result<Reply, ModelError> {
        let mut decoder = StreamDecoder::for_profile(self.provider, &self.profile);
        let mut read = 0;
        let mut until = None;
        loop {
            let fresh = self.capture.body().get(read..).unwrap_or_default();
            read += fresh.len();
            decoder.push(fresh)?.into_iter().for_each(&mut *on_delta);
            if decoder.is_done() {
                break;
            }
            if decoder.is_complete() && until.is_none() {
                until = Some(Instant::now() + self.bounds.linger);
            }
            match self.next_until(until).await {
                Ok(Some(bytes)) => self.keep(&bytes)?,
                Ok(None) => break,
                // The model has said why it stopped: nothing of its reply is missing.
                Err(_) if decoder.is_complete() => break,
                Err(error) => return Err(error),
            }
        }
        let reply = decoder.finish()?;
        self.release().await;
        Ok(reply)
    }

    /// Takes the end of the body when it is already there, so that the connection can be used
    /// again; a server that does not close is hung up on.
    async fn release(mut self) {
        let end = self.peer.chunk(self.provider);
        drop(timeout(std::time::Duration::from_millis(20), end).await);
    }

    async fn next_until(&mut self, until: Option<Instant>) -> Result<Option<Bytes>, ModelError> {
        let begun = self.has_begun();
        match until {
            Some(until) => timeout_at(until, self.next(begun)).await.unwrap_or(Ok(None)),
            None => self.next(begun).await,
        }
    }

    /// The next bytes. A body that has begun may not fall silent; until then only the call's
    /// deadline counts, since a model may think for long.
    async fn next(&mut self, begun: bool) -> Result<Option<Bytes>, ModelError> {
        let (provider, idle) = (self.provider, self.bounds.idle);
        let chunk = self.peer.chunk(provider);
        if !begun {
            return chunk.await;
        }
        timeout(idle, chunk).await.unwrap_or_else(|_| {
            let what = format!("silence of {} ms in the middle of an answer", idle.as_millis());
            Err(ModelError::new(provider, ModelErrorKind::Timeout, what))
        })
    }

    fn has_begun(&self) -> bool {
        !self.capture.body().is_empty()
    }

    fn keep(&mut self, bytes: &Bytes) -> Result<(), ModelError> {
        if self.capture.keep(bytes, self.bounds.reply) {
            return Ok(());
        }
        let what = format!("the answer is larger than {} bytes", self.bounds.reply);
        let error = ModelError::new(self.provider, ModelErrorKind::Protocol, what);
        Err(ModelError { retryable: false, ..error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_stream_by_its_first_byte_then_by_its_name_then_by_what_was_asked() {
        let stream = |framing, streams, content_type: &str, first: Option<u8>| {
            Asked { framing, streams }.is_stream(content_type, first)
        };
        let (events, lines, frames) = (Framing::Events, Framing::Lines, Framing::EventStream);
        for (framing, content_type, first) in [
            (events, "text/event-stream; charset=utf-8", b'd'),
            (events, "Text/Event-Stream", b'i'),
            (events, "application/json", b'd'),
            (events, "application/json", b':'),
            (lines, "application/x-ndjson", b'{'),
            (frames, "application/vnd.amazon.eventstream", 0),
        ] {
            for streams in [true, false] {
                let is_stream = stream(framing, streams, content_type, Some(first));
                assert!(is_stream, "{framing:?} {content_type} {first}");
            }
        }
        for (framing, content_type, first) in [
            (events, "text/event-stream", Some(b'{')),
            (events, "text/event-stream", Some(b'[')),
            (events, "", Some(b'<')),
            (events, "application/json", None),
            (events, "text/html", Some(b'I')),
            (lines, "text/html", Some(b'<')),
            (frames, "application/json", Some(b'{')),
            (frames, "application/json", None),
        ] {
            for streams in [true, false] {
                let is_stream = stream(framing, streams, content_type, first);
                assert!(!is_stream, "{framing:?} {content_type} {first:?}");
            }
        }
        for (framing, content_type, first) in
            [(events, "", None), (lines, "application/json", Some(b'{')), (frames, "", Some(0))]
        {
            for streams in [true, false] {
                let is_stream = stream(framing, streams, content_type, first);
                assert_eq!(is_stream, streams, "{framing:?} {content_type} {first:?}");
            }
        }
    }
}
