//! Says of the pieces of a conversation what redaction did to them.

use std::collections::BTreeSet;

use super::prompt::{Block, PromptTurn};
use crate::domain::file::FileSource;
use crate::domain::ledger::{Origin, Place};
use crate::domain::redaction::PLACEHOLDER_START;

/// Marks what holds placeholders in steps that redaction changed.
pub(super) fn mark_redacted(turns: &mut [PromptTurn], changed: &BTreeSet<i64>) {
    let is = |text: &str, origin: &Origin| {
        let seq = if let Place::Step { seq, .. } = origin.place { Some(seq) } else { None };
        seq.is_some_and(|seq| changed.contains(&seq)) && text.contains(PLACEHOLDER_START)
    };
    for block in turns.iter_mut().flat_map(|turn| &mut turn.blocks) {
        match block {
            Block::Text(text)
            | Block::Said { text, .. }
            | Block::Thinking { text, .. }
            | Block::ToolResult { text, .. } => text.mark_redacted(is),
            Block::ToolCall { arguments, origin, .. } => origin.redacted |= is(arguments, origin),
            Block::File { file, origin } => {
                let url = if let FileSource::Url(source) = &file.source { &source.url } else { "" };
                origin.redacted |= is(&file.id, origin) || is(url, origin);
            }
            // What is sealed is left out rather than changed.
            Block::RedactedThinking { .. } | Block::Opaque { .. } => {}
        }
    }
}
