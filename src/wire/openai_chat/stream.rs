//! A streamed reply, read as its bytes arrive.

use super::errors;
use super::reply::{Assembly, decode};
use crate::domain::message::{Reply, ReplyState};
use crate::domain::model::{ModelErrorKind, Provider};
use crate::wire::json;
use crate::wire::mask::excerpt;
use crate::wire::sse::{SseDecoder, SseEvent, SseTooLarge};
use crate::wire::{DeltaPiece, WireError};

/// How much of a body is kept in case it turns out to hold no events.
const HEAD: usize = 64 * 1024;

/// Reads server-sent events into a reply.
#[derive(Debug)]
pub struct StreamDecoder {
    provider: Provider,
    sse: SseDecoder,
    assembly: Assembly,
    done: bool,
    events: bool,
    head: Vec<u8>,
}

impl From<SseTooLarge> for WireError {
    fn from(error: SseTooLarge) -> Self {
        Self { retryable: false, ..Self::protocol(error.to_string()) }
    }
}

impl StreamDecoder {
    /// A decoder that has seen nothing yet.
    pub fn new(provider: Provider) -> Self {
        Self {
            provider,
            sse: SseDecoder::default(),
            assembly: Assembly::new(provider),
            done: false,
            events: false,
            head: Vec::new(),
        }
    }

    /// Takes the next bytes and gives back what they add to the reply.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<DeltaPiece>, WireError> {
        if self.done {
            return Ok(Vec::new());
        }
        if !self.events {
            let room = HEAD.saturating_sub(self.head.len());
            self.head.extend(bytes.iter().take(room));
        }
        for event in self.sse.push(bytes)? {
            self.take(&event, false)?;
            if self.done {
                break;
            }
        }
        Ok(self.assembly.take_pieces())
    }

    /// Whether `[DONE]` has come; nothing after it counts.
    pub const fn is_done(&self) -> bool {
        self.done
    }

    /// Whether what has come is a whole reply: some servers never send `[DONE]`, and some never say
    /// why the model stopped.
    pub const fn is_complete(&self) -> bool {
        self.done || self.assembly.is_finished()
    }

    /// What has come so far, as an interrupted reply.
    pub fn partial(&self) -> Reply {
        self.assembly.reply(ReplyState::Interrupted)
    }

    /// The bytes are over: the whole reply, or why there is none.
    pub fn finish(mut self) -> Result<Reply, WireError> {
        if !self.done
            && let Some(event) = self.sse.finish()?
        {
            self.take(&event, true)?;
        }
        if !self.events && starts_like_json(&self.head) {
            return decode(self.provider, &self.head);
        }
        if self.is_complete() {
            return self.assembly.whole();
        }
        let what = "the stream ended before a finish reason or [DONE]";
        Err(WireError::new(ModelErrorKind::TruncatedStream, what))
    }

    /// Takes an event. One that the end of the stream cut off may be half of something: when it
    /// cannot be read the stream is truncated, not wrong.
    fn take(&mut self, event: &SseEvent, cut_off: bool) -> Result<(), WireError> {
        let data = event.data.trim();
        self.events = true;
        self.done |= data == "[DONE]";
        if self.done || data.is_empty() {
            return Ok(());
        }
        match json::parse(data.as_bytes()) {
            Ok(value) if event.name.as_deref() == Some("error") => Err(errors::named(&value)),
            Ok(value) => self.assembly.add_chunk(&value),
            Err(_) if cut_off => Ok(()),
            Err(error) => {
                let shown = excerpt(data);
                Err(WireError::protocol(format!("an event is not JSON ({error}): {shown}")))
            }
        }
    }
}

fn starts_like_json(head: &[u8]) -> bool {
    matches!(head.trim_ascii_start().first(), Some(b'{' | b'['))
}
