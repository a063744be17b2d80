//! The framing proof: before a request is sent, its bytes are checked against its span map.
//!
//! The scanner is written apart from the code that escapes and frames, and calls none of it: it reads
//! the JSON as the model's side will, looks for whatever a reader could take for a framing tag, and
//! asks the span map whose bytes those are. Frames of ours must open and close like brackets, and
//! inside of one nobody else may open or close anything.

mod reader;
#[cfg(test)]
mod tests;

use crate::domain::ledger::{Origin, Span, Voice};

use reader::{TagSeen, tags_in};

/// What breaks a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{flaw} `{tag}` at byte {at} of the request")]
pub struct FramingViolation {
    /// What is wrong.
    pub flaw: FramingFlaw,
    /// The name of the tag.
    pub tag: String,
    /// The offset of its bracket.
    pub at: usize,
}

/// How a frame can be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FramingFlaw {
    /// Someone else's bytes open or close a tag inside a frame.
    #[error("someone else's bytes inside of a frame spell the tag")]
    Foreign,
    /// A frame is closed that is not the innermost open one.
    #[error("a frame is closed out of order by")]
    OutOfOrder,
    /// A frame is never closed.
    #[error("a frame is never closed after")]
    Unclosed,
}

/// Checks a request body against its spans, which tile it. `names` are the names of every tag.
///
/// # Errors
/// The first thing that breaks a frame.
pub fn prove(body: &[u8], spans: &[Span], names: &[&str]) -> Result<(), FramingViolation> {
    let mut open: Vec<TagSeen<'_>> = Vec::new();
    let mut spans = Cursor { spans };
    for tag in tags_in(body, names) {
        let fail = |flaw| Err(FramingViolation { flaw, tag: tag.name.to_owned(), at: tag.start });
        match spans.author_of(&tag) {
            Author::Frame if !tag.closes => open.push(tag),
            Author::Frame => match open.pop() {
                Some(opened) if opened.name == tag.name => {}
                Some(_) | None => return fail(FramingFlaw::OutOfOrder),
            },
            // The operator's words may hold data frames, but not the tag of the voice they stand in.
            Author::Operator if open.iter().all(|frame| frame.name != tag.name) => {}
            Author::Operator | Author::Other if !open.is_empty() => {
                return fail(FramingFlaw::Foreign);
            }
            Author::Operator | Author::Other => {}
        }
    }
    match open.pop() {
        None => Ok(()),
        Some(TagSeen { name, start, .. }) => {
            Err(FramingViolation { flaw: FramingFlaw::Unclosed, tag: name.to_owned(), at: start })
        }
    }
}

/// Whose bytes a tag is made of.
enum Author {
    /// A frame of ours with this name.
    Frame,
    /// The operator, or agentling in words that are no frame.
    Operator,
    /// Anyone else, or several at once.
    Other,
}

/// Walks over the spans as the tags come.
struct Cursor<'s> {
    spans: &'s [Span],
}

impl Cursor<'_> {
    fn author_of(&mut self, tag: &TagSeen<'_>) -> Author {
        let (start, end) = (offset(tag.start), offset(tag.end));
        let skipped = self.spans.iter().take_while(|span| span.end <= start).count();
        self.spans = self.spans.get(skipped..).unwrap_or_default();
        let touched = self.spans.iter().take_while(|span| span.start < end);
        let origins: Vec<&Origin> = touched.map(|span| &span.origin).collect();
        let all =
            |is: &dyn Fn(&Origin) -> bool| !origins.is_empty() && origins.iter().all(|o| is(o));
        let is_ours = |origin: &Origin| origin.voice == Some(Voice::Application);
        if all(&|origin| is_ours(origin) && origin.frame.as_deref() == Some(tag.name)) {
            Author::Frame
        } else if all(&|origin| is_ours(origin) || origin.voice == Some(Voice::System)) {
            Author::Operator
        } else {
            Author::Other
        }
    }
}

fn offset(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
