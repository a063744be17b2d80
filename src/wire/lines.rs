//! One JSON document a line, put together into a reply.

use super::assembly::{Assembly, Flaw, truncated, whole};
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
    flaw: Flaw,
}

impl<A: Assembly> LineStream<A> {
    /// A decoder that has seen nothing yet.
    pub fn new(assembly: A) -> Self {
        Self { assembly, line: Vec::new(), flaw: Flaw::default() }
    }

    /// Takes the lines that are whole.
    fn read(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + piece.len() > MAX_LINE {
                return Err(SseTooLarge.into());
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                self.take_line(false)?;
            }
        }
        Ok(())
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
        self.flaw.check()?;
        let read = self.read(bytes);
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
        self.take_line(true)?;
        if self.is_complete() { whole(&self.assembly) } else { Err(truncated(A::END)) }
    }
}
