//! What every wire does alike: a reply is put together from JSON values, whether they come as one body
//! or as the events of a stream.

use std::fmt::Debug;

use serde_json::Value;

use super::codec::DecodeStream;
use super::json;
use super::mask::excerpt;
use super::sse::{SseDecoder, SseEvent, SseTooLarge};
use super::{DeltaPiece, WireError};
use crate::domain::message::{Reply, ReplyPart, ReplyState};
use crate::domain::model::ModelErrorKind;

/// How much of a body is kept in case it turns out to hold no events: as much as a reply may have.
const HEAD: usize = 32 * 1024 * 1024;

/// The most calls that one reply may hold.
pub const MAX_CALLS: usize = 1_000;

/// What has come of a reply so far.
pub trait Assembly: Debug + Send {
    /// What a stream that ended too early ended before, as in "the stream ended before …".
    const END: &'static str;

    /// Takes an event of a stream: its name, where the framing has names, and its data.
    ///
    /// # Errors
    /// When the event is an error, or nothing that the wire knows how to read.
    fn add_event(&mut self, name: Option<&str>, data: &Value) -> Result<(), WireError>;

    /// Takes a whole body of status 200.
    ///
    /// # Errors
    /// When the body is an error, or nothing that the wire knows how to read.
    fn add_body(&mut self, body: &Value) -> Result<(), WireError>;

    /// `[DONE]` has come: the end marker of some wires, and noise on the others.
    fn add_done(&mut self) {}

    /// Whether the wire's own end marker has come; nothing after it counts.
    fn is_done(&self) -> bool {
        false
    }

    /// Whether what has come is a whole reply, even if nothing more comes.
    fn is_complete(&self) -> bool;

    /// What was added since the last time this was asked.
    fn take_pieces(&mut self) -> Vec<DeltaPiece>;

    /// The reply as far as it has come.
    fn reply(&self, state: ReplyState) -> Reply;

    /// The reply, now that everything has come.
    ///
    /// # Errors
    /// When what came is no reply.
    fn whole(&self) -> Result<Reply, WireError> {
        Ok(self.reply(ReplyState::Complete))
    }
}

/// Reads a whole reply: a body of status 200. White space before it is what some servers send to
/// keep the connection alive.
pub fn decode<A: Assembly>(mut assembly: A, body: &[u8]) -> Result<Reply, WireError> {
    read_body(&mut assembly, body)
}

fn read_body<A: Assembly>(assembly: &mut A, body: &[u8]) -> Result<Reply, WireError> {
    let value = json::parse(body).map_err(|error| {
        let shown = excerpt(&String::from_utf8_lossy(body));
        WireError::protocol(format!("the body is not JSON ({error}): {shown}"))
    })?;
    assembly.add_body(&value)?;
    whole(assembly)
}

/// The reply, now that everything has come.
///
/// # Errors
/// When what came is no reply, or one of more calls than a reply may hold.
pub fn whole<A: Assembly>(assembly: &A) -> Result<Reply, WireError> {
    let reply = assembly.whole()?;
    let is_call = |part: &&ReplyPart| matches!(part, ReplyPart::ToolCall(_));
    check_calls(reply.parts.iter().filter(is_call).count())?;
    Ok(reply)
}

/// Holds the calls of a reply to their bound.
///
/// # Errors
/// When there are more calls than a reply may hold.
pub fn check_calls(n_calls: usize) -> Result<(), WireError> {
    if n_calls > MAX_CALLS {
        let error = WireError::protocol("the reply has too many tool calls");
        return Err(WireError { retryable: false, ..error });
    }
    Ok(())
}

/// The beginning of a stream, kept until something shows that it is one: it may turn out to be a body
/// of JSON, though a stream was asked for.
#[derive(Debug, Default)]
pub struct Head {
    /// From the first byte on that is no white space.
    bytes: Vec<u8>,
    /// At least one event has come, or something that no JSON begins with.
    is_stream: bool,
}

impl Head {
    /// Takes the next bytes, as far as they matter.
    pub fn keep(&mut self, bytes: &[u8]) {
        if self.is_stream {
            return;
        }
        let bytes = if self.bytes.is_empty() { bytes.trim_ascii_start() } else { bytes };
        let room = HEAD.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        if self.bytes.first().is_some_and(|first| !matches!(first, b'{' | b'[')) {
            self.seen();
        }
    }

    /// An event has come.
    pub fn seen(&mut self) {
        self.is_stream = true;
        self.bytes = Vec::new();
    }

    /// Whether no event has come and the bytes begin like JSON.
    pub const fn is_json(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Reads the bytes as a body.
    ///
    /// # Errors
    /// When the body is an error, or cannot be read.
    pub fn read<A: Assembly>(&self, assembly: &mut A) -> Result<Reply, WireError> {
        read_body(assembly, &self.bytes)
    }
}

/// What was wrong in a stream, held back until what came ahead of it in the same read is told. Nothing
/// that comes after it counts.
#[derive(Debug, Default)]
pub struct Flaw(Option<WireError>);

impl Flaw {
    /// Takes what came of a read and gives back what it adds to the reply, else what was wrong.
    ///
    /// # Errors
    /// When something was wrong with nothing ahead of it.
    pub fn after(
        &mut self,
        read: Result<(), WireError>,
        pieces: Vec<DeltaPiece>,
    ) -> Result<Vec<DeltaPiece>, WireError> {
        match read {
            Err(error) if pieces.is_empty() => Err(error),
            Err(error) => {
                self.0 = Some(error);
                Ok(pieces)
            }
            Ok(()) => Ok(pieces),
        }
    }

    /// Whether something was wrong that is still to be said.
    pub const fn is_found(&self) -> bool {
        self.0.is_some()
    }

    /// Says what was wrong.
    ///
    /// # Errors
    /// When something was.
    pub fn check(&self) -> Result<(), WireError> {
        self.0.clone().map_or(Ok(()), Err)
    }
}

/// The error of a stream that ended too early.
pub fn truncated(before: &str) -> WireError {
    let what = format!("the stream ended before {before}");
    WireError::new(ModelErrorKind::TruncatedStream, what)
}

impl From<SseTooLarge> for WireError {
    fn from(error: SseTooLarge) -> Self {
        Self { retryable: false, ..Self::protocol(error.to_string()) }
    }
}

/// Reads server-sent events into a reply.
#[derive(Debug)]
pub struct EventStream<A> {
    sse: SseDecoder,
    assembly: A,
    /// `[DONE]` has come.
    done: bool,
    head: Head,
    flaw: Flaw,
}

impl<A: Assembly> EventStream<A> {
    /// A decoder that has seen nothing yet.
    pub fn new(assembly: A) -> Self {
        let (sse, head, flaw) = (SseDecoder::default(), Head::default(), Flaw::default());
        Self { sse, assembly, done: false, head, flaw }
    }

    /// Takes the events that are whole. A document of JSON may have longer lines than a stream.
    fn read(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        let events = match self.sse.push(bytes) {
            Err(_) if self.head.is_json() => return Ok(()),
            events => events?,
        };
        for event in events {
            self.take(&event, false)?;
            if self.is_done() {
                break;
            }
        }
        Ok(())
    }

    /// Takes an event. One that the end of the stream cut off may be half of something: when it
    /// cannot be read the stream is truncated, not wrong.
    fn take(&mut self, event: &SseEvent, cut_off: bool) -> Result<(), WireError> {
        let data = event.data.trim();
        self.head.seen();
        if data == "[DONE]" {
            self.done = true;
            self.assembly.add_done();
        }
        if self.done || data.is_empty() {
            return Ok(());
        }
        match json::parse(data.as_bytes()) {
            Ok(value) => self.assembly.add_event(event.name.as_deref(), &value),
            Err(_) if cut_off => Ok(()),
            Err(error) => {
                let shown = excerpt(data);
                Err(WireError::protocol(format!("an event is not JSON ({error}): {shown}")))
            }
        }
    }
}

impl<A: Assembly> DecodeStream for EventStream<A> {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<DeltaPiece>, WireError> {
        self.flaw.check()?;
        if self.is_done() {
            return Ok(Vec::new());
        }
        self.head.keep(bytes);
        let read = self.read(bytes);
        self.flaw.after(read, self.assembly.take_pieces())
    }

    fn is_done(&self) -> bool {
        self.done || self.flaw.is_found() || self.assembly.is_done()
    }

    fn is_complete(&self) -> bool {
        self.assembly.is_complete()
    }

    fn partial(&self) -> Reply {
        self.assembly.reply(ReplyState::Interrupted)
    }

    fn finish(mut self: Box<Self>) -> Result<Reply, WireError> {
        self.flaw.check()?;
        if !self.is_done() {
            match self.sse.finish() {
                Ok(Some(event)) => self.take(&event, true)?,
                Err(error) if !self.head.is_json() => return Err(error.into()),
                Ok(None) | Err(_) => {}
            }
        }
        if self.head.is_json() {
            return self.head.read(&mut self.assembly);
        }
        if self.is_complete() { whole(&self.assembly) } else { Err(truncated(A::END)) }
    }
}
