//! Server-sent events from bytes that are split anywhere.

/// The longest line that is taken, in bytes: images arrive inline.
pub const MAX_LINE: usize = 8 * 1024 * 1024;

/// The largest event that is taken, in bytes of data.
pub const MAX_EVENT: usize = 16 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Its `event` field.
    pub name: Option<String>,
    /// Its `data` fields, joined by line feeds.
    pub data: String,
}

/// A line or an event beyond its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a line or an event of the stream is too large")]
pub struct SseTooLarge;

/// Collects bytes into lines and lines into events.
///
/// Text is decoded by line, never by network read, so that a character split across two reads
/// stays whole.
#[derive(Debug, Default)]
pub struct SseDecoder {
    line: Vec<u8>,
    after_cr: bool,
    past_first_line: bool,
    name: Option<String>,
    data: Option<String>,
}

impl SseDecoder {
    /// Takes the next bytes and gives back the events they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, SseTooLarge> {
        let mut events = Vec::new();
        let mut rest = bytes;
        while let Some((first, after)) = rest.split_first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                rest = after;
                continue;
            }
            let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
            let (piece, tail) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            if piece.len() > MAX_LINE - self.line.len() {
                return Err(SseTooLarge);
            }
            self.line.extend_from_slice(piece);
            let Some((line_end, after)) = tail.split_first() else { break };
            self.after_cr = *line_end == b'\r';
            events.extend(self.end_line()?);
            rest = after;
        }
        Ok(events)
    }

    /// The bytes are over: the event that lacks its blank line, if there is one.
    pub fn finish(&mut self) -> Result<Option<SseEvent>, SseTooLarge> {
        let last = if self.line.is_empty() { None } else { self.end_line()? };
        Ok(last.or_else(|| self.dispatch()))
    }

    fn end_line(&mut self) -> Result<Option<SseEvent>, SseTooLarge> {
        let bytes = std::mem::take(&mut self.line);
        let mut line = bytes.as_slice();
        if !std::mem::replace(&mut self.past_first_line, true) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.dispatch());
        }
        self.field(&String::from_utf8_lossy(line))?;
        Ok(None)
    }

    fn field(&mut self, line: &str) -> Result<(), SseTooLarge> {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => self.name = Some(value.to_owned()),
            "data" => self.add_data(value)?,
            // An empty name is a comment; `id` and `retry` are for clients that reconnect.
            _ => {}
        }
        Ok(())
    }

    fn add_data(&mut self, value: &str) -> Result<(), SseTooLarge> {
        let Some(data) = &mut self.data else {
            self.data = Some(value.to_owned());
            return Ok(());
        };
        if data.len() + value.len() > MAX_EVENT {
            return Err(SseTooLarge);
        }
        data.push('\n');
        data.push_str(value);
        Ok(())
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let name = self.name.take();
        self.data.take().map(|data| SseEvent { name, data })
    }
}

#[cfg(test)]
mod tests;
