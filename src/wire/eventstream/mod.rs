//! Amazon's binary event stream, from bytes that are split anywhere.
//!
//! A frame says how long it is before anything vouches for the number: memory is taken as bytes come,
//! and never for what is only announced.

mod crc;
mod header;
mod stream;

pub use stream::FrameStream;

use crc::crc32;

/// The largest frame that is taken, in bytes: Amazon's own bounds of headers and payload, and room.
pub const MAX_FRAME: usize = 24 * 1024 * 1024;

/// Two lengths and the checksum over them.
const PRELUDE: usize = 12;

/// The checksum at the end.
const TRAILER: usize = 4;

/// What a frame brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// An event of the stream.
    Event,
    /// An exception that the service models, or an error that it does not.
    Exception,
}

/// One frame, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it brings.
    pub kind: FrameKind,
    /// The type of the event or of the exception, or the code of the error.
    pub name: Option<String>,
    /// What an error says, where it is said beside the payload.
    pub message: Option<String>,
    /// Whether the payload is JSON, as far as the frame says.
    pub is_json: bool,
    /// The payload.
    pub payload: Vec<u8>,
}

/// Bytes that are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Bytes were changed on the way, or there are no frames at all.
    #[error("a checksum of the event stream is wrong")]
    Checksum,
    /// Lengths do not fit into each other.
    #[error("a frame of the event stream is malformed")]
    Malformed,
    /// A frame is beyond its bound.
    #[error("a frame of the event stream is too large")]
    TooLarge,
}

/// Collects bytes into frames.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    /// How many bytes of the buffer have been given out.
    read: usize,
    /// The lengths of the frame that comes next, once its prelude is checked.
    lengths: Option<Lengths>,
}

#[derive(Debug, Clone, Copy)]
struct Lengths {
    total: usize,
    headers: usize,
}

impl FrameDecoder {
    /// Takes the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, if it has come whole.
    ///
    /// # Errors
    /// When the bytes are no frame; nothing after them can be read.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let rest = self.buffer.get(self.read..).unwrap_or_default();
        let lengths = match self.lengths {
            Some(lengths) => lengths,
            None => match rest.split_first_chunk::<PRELUDE>() {
                Some((prelude, _)) => Lengths::read(prelude)?,
                None => return Ok(None),
            },
        };
        self.lengths = Some(lengths);
        let Some(frame) = rest.get(..lengths.total) else { return Ok(None) };
        let frame = lengths.frame(frame)?;
        self.read = self.read.saturating_add(lengths.total);
        self.lengths = None;
        Ok(Some(frame))
    }
}

impl Lengths {
    fn read(prelude: &[u8; PRELUDE]) -> Result<Self, FrameError> {
        let (lengths, checksum) = prelude.split_at_checked(8).ok_or(FrameError::Malformed)?;
        if number(checksum) != Some(crc32(lengths)) {
            return Err(FrameError::Checksum);
        }
        let (total, headers) = lengths.split_at_checked(4).ok_or(FrameError::Malformed)?;
        let length = |bytes| number(bytes).and_then(|n| usize::try_from(n).ok());
        let total = length(total).ok_or(FrameError::TooLarge)?;
        let headers = length(headers).ok_or(FrameError::TooLarge)?;
        if total > MAX_FRAME {
            return Err(FrameError::TooLarge);
        }
        let room = total.checked_sub(PRELUDE + TRAILER).ok_or(FrameError::Malformed)?;
        if headers > room { Err(FrameError::Malformed) } else { Ok(Self { total, headers }) }
    }

    /// Reads a frame that has come whole.
    fn frame(self, bytes: &[u8]) -> Result<Frame, FrameError> {
        let end = self.total.saturating_sub(TRAILER);
        let (checked, checksum) = bytes.split_at_checked(end).ok_or(FrameError::Malformed)?;
        if number(checksum) != Some(crc32(checked)) {
            return Err(FrameError::Checksum);
        }
        let body = checked.get(PRELUDE..).unwrap_or_default();
        let (headers, payload) =
            body.split_at_checked(self.headers).ok_or(FrameError::Malformed)?;
        header::frame(headers, payload).ok_or(FrameError::Malformed)
    }
}

/// Four bytes, the highest first.
fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.first_chunk::<4>()?))
}

#[cfg(test)]
pub(in crate::wire) mod tests;
