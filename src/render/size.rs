//! How much of a model's context window a prompt takes, as far as that can be said without its
//! tokeniser.
//!
//! The estimate is meant to be a little too high: four ASCII characters a token is what tokenisers
//! reach on English prose, and a character beyond ASCII counts as a token of its own.

use super::prompt::{Block, Prompt};
use crate::domain::file::{FilePart, FileSource};

/// What a turn, a call or a result takes beside its text.
const OVERHEAD: u64 = 4;

/// What a file that is no text is taken for: providers count images by tiles, of which this is a few.
const FILE: u64 = 1_500;

/// The tokens of a text.
pub fn of_text(text: &str) -> u64 {
    let n_ascii = text.bytes().filter(u8::is_ascii).count();
    let n_other = text.chars().filter(|c| !c.is_ascii()).count();
    count(n_ascii).div_ceil(4).saturating_add(count(n_other))
}

/// The tokens of a prompt, its tools included.
pub fn of_prompt(prompt: &Prompt) -> u64 {
    let system = prompt.system.as_deref().map_or(0, of_text);
    let blocks = prompt.turns.iter().flat_map(|turn| &turn.blocks).map(of_block);
    let tools = prompt.tools.iter().map(|tool| {
        let parts = [tool.name.as_str(), &tool.description, &tool.parameters.to_string()];
        parts.into_iter().map(of_text).sum::<u64>().saturating_add(OVERHEAD)
    });
    blocks.chain(tools).fold(system, u64::saturating_add)
}

fn of_block(block: &Block) -> u64 {
    let text = match block {
        Block::Text(text)
        | Block::Said { text, .. }
        | Block::Thinking { text, .. }
        | Block::ToolResult { text, .. } => of_text(text),
        Block::File { file, .. } => of_file(file),
        Block::RedactedThinking { data, .. } => of_text(data),
        Block::Opaque { raw, .. } => of_text(&raw.to_string()),
        Block::ToolCall { name, arguments, .. } => of_text(name).saturating_add(of_text(arguments)),
    };
    text.saturating_add(OVERHEAD)
}

/// The tokens of a file.
pub fn of_file(file: &FilePart) -> u64 {
    match &file.source {
        FileSource::Text(source) => of_text(&source.text),
        // A document's pages are counted one by one, and its size is all that is known of them.
        FileSource::Base64(source) if !file.media_type.starts_with("image/") => {
            count(source.base64.len()).div_ceil(64).max(FILE)
        }
        FileSource::Base64(_) | FileSource::Url(_) => FILE,
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_ascii_characters_are_a_token_and_any_other_is_one_alone() {
        assert_eq!(of_text(""), 0);
        assert_eq!(of_text("abcd"), 1);
        assert_eq!(of_text("abcde"), 2);
        assert_eq!(of_text("日本語"), 3);
        assert_eq!(of_text("naïve"), 2);
    }
}
