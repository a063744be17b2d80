//! The conversation: turns of a prompt as contents of the two roles that there are.
//!
//! Neighbouring turns of one speaker are one content, since calls may only follow what is not the
//! model's. What tools gave back is a content of its own, right after the calls: nothing else may stand
//! in it. All of it depends on what came before alone, so that a longer conversation goes on where the
//! shorter one ends.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::domain::file::{FilePart, FileSource};
use crate::domain::ledger::Origin;
use crate::render::profile::Profile;
use crate::render::prompt::{Block, PromptTurn, Role};
use crate::wire::writer::{Array, Object};

/// The member of a part that holds its issuer's signature.
pub(super) const SIGNATURE: &str = "thoughtSignature";

/// What Google documents for calls that its model did not make.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Members of a part that say what it is, which no echo can change.
pub(super) const OWN_MEMBERS: &[&str] = &[
    "text",
    "thought",
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
];

/// Members of a part that are told from the parts of a reply and from outcomes alone.
const TOLD_BY_PARTS: &[&str] = &["text", "functionCall", "functionResponse"];

/// Whether a member is one of these, in either of the two spellings that are understood.
fn is_one_of(names: &[&str], member: &str) -> bool {
    let plain = member.replace('_', "");
    names.iter().any(|name| name.eq_ignore_ascii_case(&plain))
}

/// Who a content is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    User,
    Model,
    Tools,
}

impl Speaker {
    /// There is no role for a system in the middle of a conversation.
    const fn of(role: Role) -> Self {
        match role {
            Role::System | Role::User => Self::User,
            Role::Assistant => Self::Model,
            Role::Tool => Self::Tools,
        }
    }

    const fn role(self) -> &'static str {
        match self {
            Self::User | Self::Tools => "user",
            Self::Model => "model",
        }
    }
}

/// A piece of a content.
struct Part<'p> {
    block: &'p Block,
    /// A signature that stands in for the one that it lacks.
    stand_in: bool,
}

struct Content<'p> {
    speaker: Speaker,
    parts: Vec<Part<'p>>,
}

/// Writes the contents. The first one has to be the user's.
pub(super) fn add(list: &mut Array<'_>, turns: &[PromptTurn], profile: &Profile) {
    let contents = grouped(turns, profile);
    if contents.first().is_none_or(|first| first.speaker == Speaker::Model) {
        list.object(|content| {
            content.wire("role", Speaker::User.role());
            content.array("parts", |parts| parts.object(|part| part.wire("text", "")));
        });
    }
    for Content { speaker, parts } in &contents {
        list.object(|content| {
            content.wire("role", speaker.role());
            content.array("parts", |list| parts.iter().for_each(|part| add_part(list, part)));
        });
    }
}

fn grouped<'p>(turns: &'p [PromptTurn], profile: &Profile) -> Vec<Content<'p>> {
    let mut contents: Vec<Content<'p>> = Vec::new();
    for turn in turns {
        let speaker = Speaker::of(turn.role);
        let parts = parts(turn, profile);
        match contents.last_mut() {
            _ if parts.is_empty() => {}
            Some(last) if last.speaker == speaker => last.parts.extend(parts),
            _ => contents.push(Content { speaker, parts }),
        }
    }
    contents
}

/// The blocks of a turn that the wire has a place for. The newest models refuse a turn whose first call
/// is not signed, such as one of another model.
fn parts<'p>(turn: &'p PromptTurn, profile: &Profile) -> Vec<Part<'p>> {
    let mut is_owed = profile.gemini.signs_calls();
    let blocks = turn.blocks.iter().filter(|block| is_told(block));
    blocks
        .map(|block| {
            let Block::ToolCall { echo, .. } = block else {
                return Part { block, stand_in: false };
            };
            let is_first = std::mem::take(&mut is_owed);
            Part { block, stand_in: is_first && !is_signed(echo.as_ref()) }
        })
        .collect()
}

fn is_signed(echo: Option<&Value>) -> bool {
    echo.and_then(|echo| echo.get(SIGNATURE)?.as_str()).is_some_and(|text| !text.is_empty())
}

fn is_told(block: &Block) -> bool {
    match block {
        // A loaded history can claim anything to have come.
        Block::Opaque { raw, .. } => raw
            .as_object()
            .is_some_and(|members| !members.keys().any(|name| is_one_of(TOLD_BY_PARTS, name))),
        Block::RedactedThinking { .. } => false,
        Block::Text(_)
        | Block::Said { .. }
        | Block::File { .. }
        | Block::Thinking { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. } => true,
    }
}

fn add_part(list: &mut Array<'_>, Part { block, stand_in }: &Part<'_>) {
    match block {
        Block::Text(text) => list.object(|part| part.text("text", text)),
        Block::Said { text, echo } => list.object(|part| {
            part.text("text", text);
            add_echo(part, echo.as_ref(), (false, text.origin()));
        }),
        Block::Thinking { text, signature, echo, .. } => list.object(|part| {
            part.text("text", text);
            part.wire("thought", true);
            if let Some(signature) = signature {
                part.string(SIGNATURE, signature, text.origin());
            }
            add_echo(part, echo.as_ref(), (signature.is_some(), text.origin()));
        }),
        Block::File { file, origin } => list.object(|part| add_file(part, file, origin)),
        Block::Opaque { raw, origin } => list.value(raw, origin),
        Block::ToolCall { echo, origin, .. } => list.object(|part| {
            part.object("functionCall", |call| add_call(call, block));
            if *stand_in {
                part.wire(SIGNATURE, NO_SIGNATURE);
            }
            add_echo(part, echo.as_ref(), (*stand_in, origin));
        }),
        Block::ToolResult { .. } => list.object(|part| {
            part.object("functionResponse", |result| add_result(result, block));
        }),
        Block::RedactedThinking { .. } => {}
    }
}

fn add_call(call: &mut Object<'_>, block: &Block) {
    let Block::ToolCall { id, name, arguments, origin, .. } = block else { return };
    call.string("id", id, origin);
    call.string("name", name, origin);
    call.json("args", arguments, origin);
}

fn add_result(result: &mut Object<'_>, block: &Block) {
    let Block::ToolResult { id, name, text, is_error, .. } = block else { return };
    result.string("id", id, text.origin());
    result.string("name", name, text.origin());
    result.object("response", |response| {
        response.text(if *is_error { "error" } else { "output" }, text);
    });
}

/// What the issuer wants back beside a part. A signature is text that only the issuer can read, and goes
/// back as it came, unless the part has one already.
fn add_echo(part: &mut Object<'_>, echo: Option<&Value>, (is_signed, origin): (bool, &Origin)) {
    for (name, value) in echo.and_then(Value::as_object).into_iter().flatten() {
        let is_second = is_signed && is_one_of(&[SIGNATURE], name);
        if !(is_second || is_one_of(OWN_MEMBERS, name)) {
            part.value(name, value, origin);
        }
    }
}

fn add_file(part: &mut Object<'_>, file: &FilePart, origin: &Origin) {
    let data = match &file.source {
        FileSource::Url(source) => {
            part.object("fileData", |it| {
                it.string("mimeType", &file.media_type, origin);
                it.string("fileUri", &source.url, origin);
            });
            return;
        }
        FileSource::Base64(source) => source.base64.clone(),
        FileSource::Text(source) => BASE64_STANDARD.encode(&source.text),
    };
    part.object("inlineData", |it| {
        it.string("mimeType", &file.media_type, origin);
        it.string("data", &data, origin);
    });
}
