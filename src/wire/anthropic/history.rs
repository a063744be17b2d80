//! Turns as the messages of this wire: who speaks when, and what stands in between.
//!
//! Everything between two turns of the model is one message of the user. A longer conversation only adds
//! to it, except that an entry of the system moves behind what the user says after it: nothing but a
//! turn of the model may follow such an entry. A request is answered by a turn of the model, so every
//! request that was answered is begun with by the later ones.

use std::collections::BTreeSet;

use serde_json::Value;

use super::messages::is_the_providers;
use crate::render::prompt::{Block, PromptTurn, Role};
use crate::wire::json::text;

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    System,
    Assistant,
}

impl Speaker {
    /// Its name in a request.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::System => "system",
            Self::Assistant => "assistant",
        }
    }
}

/// A message. One without blocks is an anchor: a turn that only has to be there.
#[derive(Debug)]
pub(super) struct Message<'p> {
    pub(super) speaker: Speaker,
    pub(super) blocks: Vec<&'p Block>,
}

/// What was said since the model's last turn.
#[derive(Debug, Default)]
struct Gap<'p> {
    results: Vec<&'p Block>,
    said: Vec<&'p Block>,
    system: Vec<&'p Block>,
}

impl<'p> Gap<'p> {
    const fn is_empty(&self) -> bool {
        self.results.is_empty() && self.said.is_empty() && self.system.is_empty()
    }

    fn add(&mut self, turn: &'p PromptTurn) {
        for block in &turn.blocks {
            match (turn.role, block) {
                (_, Block::ToolResult { .. }) => self.results.push(block),
                (Role::System, _) => self.system.push(block),
                (Role::User | Role::Tool | Role::Assistant, _) => self.said.push(block),
            }
        }
    }

    /// The user's message, and the system's behind it.
    fn close(&mut self, messages: &mut Vec<Message<'p>>) {
        let Self { mut results, said, system } = std::mem::take(self);
        results.extend(said);
        messages.push(Message { speaker: Speaker::User, blocks: results });
        if !system.is_empty() {
            messages.push(Message { speaker: Speaker::System, blocks: system });
        }
    }
}

/// The messages of a conversation.
pub(super) fn messages(turns: &[PromptTurn]) -> Vec<Message<'_>> {
    let pairs = Pairs::of(turns);
    let mut messages: Vec<Message<'_>> = Vec::new();
    let mut gap = Gap::default();
    let mut is_unheard = false;
    for turn in turns {
        if turn.role != Role::Assistant {
            if std::mem::take(&mut is_unheard) {
                gap.close(&mut messages);
                messages.push(Message { speaker: Speaker::Assistant, blocks: Vec::new() });
            }
            gap.add(turn);
            continue;
        }
        let is_told = |block: &&Block| is_said(block) && pairs.is_whole(block);
        let blocks: Vec<&Block> = turn.blocks.iter().filter(is_told).collect();
        if blocks.is_empty() {
            // The model has answered an entry of the system: what comes now cannot go ahead of it.
            is_unheard = !gap.system.is_empty();
            continue;
        }
        is_unheard = false;
        match messages.last_mut() {
            Some(last) if gap.is_empty() && is_paused(last) => last.blocks.extend(blocks),
            _ => {
                gap.close(&mut messages);
                messages.push(Message { speaker: Speaker::Assistant, blocks });
            }
        }
    }
    if !(gap.is_empty() && messages.last().is_some_and(is_paused)) {
        gap.close(&mut messages);
    }
    messages
}

/// Whether a conversation holds calls or results of tools of ours.
pub(super) fn has_tools(turns: &[PromptTurn]) -> bool {
    let is_of_tool =
        |block: &Block| matches!(block, Block::ToolCall { .. } | Block::ToolResult { .. });
    turns.iter().flat_map(|turn| &turn.blocks).any(is_of_tool)
}

/// A text of nothing but white space is refused; and what a loaded history claims to be the provider's
/// own is left out where the provider has no such block.
fn is_said(block: &Block) -> bool {
    match block {
        Block::Said { text, .. } => !text.trim().is_empty(),
        Block::Opaque { raw, .. } => is_the_providers(raw),
        Block::Text(_)
        | Block::File { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. } => true,
    }
}

/// Whether the model's turn ended in the middle, to be gone on with.
fn is_paused(message: &Message<'_>) -> bool {
    message.speaker == Speaker::Assistant
        && message.blocks.last().is_some_and(|block| use_id(block).is_some())
}

/// The id of a call that the provider itself runs.
fn use_id(block: &Block) -> Option<&str> {
    let raw = raw(block)?;
    text(raw, "id").filter(|_| text(raw, "type").is_some_and(|kind| kind.ends_with("tool_use")))
}

/// The id of the call that a result of the provider's own belongs to.
fn result_id(block: &Block) -> Option<&str> {
    let raw = raw(block)?;
    text(raw, "tool_use_id")
        .filter(|_| text(raw, "type").is_some_and(|kind| kind.ends_with("tool_result")))
}

const fn raw(block: &Block) -> Option<&Value> {
    if let Block::Opaque { raw, .. } = block { Some(raw) } else { None }
}

/// The calls that the provider ran itself and their results: one without the other is refused, unless
/// the call is still open.
struct Pairs<'p> {
    called: BTreeSet<&'p str>,
    answered: BTreeSet<&'p str>,
    open: BTreeSet<&'p str>,
}

impl<'p> Pairs<'p> {
    fn of(turns: &'p [PromptTurn]) -> Self {
        let blocks = || turns.iter().flat_map(|turn| &turn.blocks);
        // The model's last turn goes on when nothing but the results of its calls has come since.
        let mut latest = turns.iter().rev().skip_while(|turn| turn.role == Role::Tool);
        let last = latest.next().filter(|turn| turn.role == Role::Assistant);
        Self {
            called: blocks().filter_map(use_id).collect(),
            answered: blocks().filter_map(result_id).collect(),
            open: last.into_iter().flat_map(|turn| &turn.blocks).filter_map(use_id).collect(),
        }
    }

    fn is_whole(&self, block: &Block) -> bool {
        use_id(block).is_none_or(|id| self.answered.contains(id) || self.open.contains(id))
            && result_id(block).is_none_or(|id| self.called.contains(id))
    }
}
