//! A reply from the frames of a stream.

use serde_json::{Value, json};

use super::{Frame, FrameDecoder, FrameError, FrameKind};
use crate::domain::message::{Reply, ReplyState};
use crate::wire::assembly::{Assembly, Flaw, Head, truncated, whole};
use crate::wire::codec::DecodeStream;
use crate::wire::mask::excerpt;
use crate::wire::{DeltaPiece, WireError, failure, json};

impl From<FrameError> for WireError {
    fn from(error: FrameError) -> Self {
        let retryable = error != FrameError::TooLarge;
        Self { retryable, ..Self::protocol(error.to_string()) }
    }
}

/// Reads frames into a reply.
#[derive(Debug)]
pub struct FrameStream<A> {
    frames: FrameDecoder,
    assembly: A,
    head: Head,
    flaw: Flaw,
    /// Something other than white space has come.
    has_begun: bool,
}

impl<A: Assembly> FrameStream<A> {
    /// A decoder that has seen nothing yet.
    pub fn new(assembly: A) -> Self {
        let (frames, head, flaw) = (FrameDecoder::default(), Head::default(), Flaw::default());
        Self { frames, assembly, head, flaw, has_begun: false }
    }

    /// Takes the frames that are whole.
    fn read(&mut self) -> Result<(), WireError> {
        while !self.is_done()
            && let Some(frame) = self.frames.next_frame()?
        {
            self.take(&frame)?;
        }
        Ok(())
    }

    fn take(&mut self, frame: &Frame) -> Result<(), WireError> {
        self.head.seen();
        let data = match json::parse(&frame.payload) {
            Ok(data) => data,
            Err(_) if frame.kind == FrameKind::Exception => Value::Null,
            Err(_) if frame.payload.is_empty() || !frame.is_json => return Ok(()),
            Err(error) => {
                let shown = excerpt(&String::from_utf8_lossy(&frame.payload));
                let what = format!("an event is not JSON ({error}): {shown}");
                return Err(WireError::protocol(what));
            }
        };
        match frame.kind {
            FrameKind::Event => self.assembly.add_event(frame.name.as_deref(), &data),
            FrameKind::Exception => Err(exception(frame, &data)),
        }
    }
}

/// An exception is the error that its name stands for.
fn exception(frame: &Frame, data: &Value) -> WireError {
    let said = ["message", "Message"].iter().find_map(|key| json::text(data, key));
    let message = said.or(frame.message.as_deref()).unwrap_or_default();
    failure::named(&json!({"code": frame.name, "message": message}))
}

impl<A: Assembly> DecodeStream for FrameStream<A> {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<DeltaPiece>, WireError> {
        self.flaw.check()?;
        if self.is_done() {
            return Ok(Vec::new());
        }
        self.head.keep(bytes);
        // A frame that began like a text would be longer than any that is taken.
        let bytes = if self.has_begun { bytes } else { bytes.trim_ascii_start() };
        self.has_begun |= !bytes.is_empty();
        if self.head.is_json() {
            return Ok(Vec::new());
        }
        self.frames.feed(bytes);
        let read = self.read();
        self.flaw.after(read, self.assembly.take_pieces())
    }

    fn is_done(&self) -> bool {
        self.flaw.is_found() || self.assembly.is_done()
    }

    fn is_complete(&self) -> bool {
        self.assembly.is_complete()
    }

    fn partial(&self) -> Reply {
        self.assembly.reply(ReplyState::Interrupted)
    }

    fn finish(mut self: Box<Self>) -> Result<Reply, WireError> {
        self.flaw.check()?;
        if self.head.is_json() {
            return self.head.read(&mut self.assembly);
        }
        if self.is_complete() { whole(&self.assembly) } else { Err(truncated(A::END)) }
    }
}
