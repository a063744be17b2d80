//! One JSON document a line, put together into a reply.

use super::assembly::{Assembly, truncated};
use super::codec::DecodeStream;
use super::json;
use super::mask::excerpt;
use super::sse::{MAX_LINE, SseTooLarge};
use super::{DeltaPiece, WireError};
use crate::domain::message::{Reply, ReplyState};

/// Reads lines into a reply.
#[derive(Debug)]
pub struct LineStream<A> {
    assembly: A,
    line: Vec<u8>,
}

impl<A: Assembly> LineStream<A> {
    /// A decoder that has seen nothing yet.
    pub const fn new(assembly: A) -> Self {
        Self { assembly, line: Vec::new() }
    }

    /// Takes the line that has come. One that the end of the stream cut off may be half of something:
    /// when it cannot be read the stream is truncated, not wrong.
    fn take_line(&mut self, cut_off: bool) -> Result<(), WireError> {
        let line = std::mem::take(&mut self.line);
        let line = line.trim_ascii();
        if line.is_empty() || self.assembly.is_done() {
            return Ok(());
        }
        match json::parse(line) {
            Ok(value) => self.assembly.add_event(None, &value),
            Err(_) if cut_off && line.starts_with(b"{") => Ok(()),
            Err(error) => {
                let shown = excerpt(&String::from_utf8_lossy(line));
                Err(WireError::protocol(format!("a line is not JSON ({error}): {shown}")))
            }
        }
    }
}

impl<A: Assembly> DecodeStream for LineStream<A> {
    fn push(&mut self, bytes: &[u8]) -> Result<Vec<DeltaPiece>, WireError> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + piece.len() > MAX_LINE {
                return Err(SseTooLarge.into());
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.take_line(false)?;
            }
        }
        Ok(self.assembly.take_pieces())
    }

    fn is_done(&self) -> bool {
        self.assembly.is_done()
    }

    fn is_complete(&self) -> bool {
        self.assembly.is_complete()
    }

    fn partial(&self) -> Reply {
        self.assembly.reply(ReplyState::Interrupted)
    }

    fn finish(mut self: Box<Self>) -> Result<Reply, WireError> {
        self.take_line(true)?;
        if self.is_complete() { self.assembly.whole() } else { Err(truncated(A::END)) }
    }
}
