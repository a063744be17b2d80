//! What Claude models can do, by their names: the rows of Anthropic's own wire.

use super::profile::{CallIdRule, FileKinds, OwnThinking, Profile, Thinking};

/// The files that are read; any other would be refused, and the conversation with it.
const MEDIA_TYPES: &[&str] =
    &["image/jpeg", "image/png", "image/gif", "image/webp", "application/pdf"];

/// A Claude model of which nothing is known, or another model behind the same wire.
pub(super) const ANTHROPIC: Profile = Profile {
    family: "anthropic",
    call_ids: CallIdRule::AtMost(64),
    own_thinking: OwnThinking::GoesBackSigned,
    files: FileKinds { images: true, documents: true },
    media_types: Some(MEDIA_TYPES),
    ..Profile::CONSERVATIVE
};

/// Models that think as far as a budget of tokens lets them.
pub(super) const BY_BUDGET: Profile = Profile {
    family: "anthropic_by_budget",
    max_tool_name: 128,
    default_max_tokens: 8_192,
    ..ANTHROPIC
};

/// Models that decide by themselves how much they think.
pub(super) const ADAPTIVE: Profile = Profile {
    family: "anthropic_adaptive",
    default_max_tokens: 16_384,
    thinking: Thinking::Adaptive,
    ..BY_BUDGET
};

/// Those of them that take a system entry in the middle of a conversation.
pub(super) const NATIVE: Profile =
    Profile { family: "anthropic_native_system", native_system: true, ..ADAPTIVE };

/// The row of a model at Anthropic itself.
pub(super) fn row(name: &str) -> Profile {
    let Some((kind, version)) = parse(name) else { return ANTHROPIC };
    match kind {
        "opus" if version >= (4, 8) => NATIVE,
        "fable" | "mythos" if version >= (5, 0) => NATIVE,
        "opus" | "sonnet" if version >= (4, 6) => ADAPTIVE,
        "haiku" if version >= (5, 0) => ADAPTIVE,
        "opus" | "sonnet" | "haiku" if version >= (4, 0) => BY_BUDGET,
        _ => ANTHROPIC,
    }
}

/// The kind and the version in a name such as `claude-opus-4-8-20260528`. A number of more than two
/// digits is a date.
fn parse(name: &str) -> Option<(&str, (u32, u32))> {
    let mut words = name.strip_prefix("claude-")?.split(['-', '@']);
    let kind = words.next()?;
    let mut number = || words.next().filter(|word| word.len() <= 2)?.parse().ok();
    let major = number()?;
    Some((kind, (major, number().unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_models_take_a_system_entry_in_mid_conversation() {
        for name in [
            "claude-opus-4-8",
            "claude-opus-4-8-20260528",
            "claude-opus-5",
            "claude-opus-5-1",
            "claude-fable-5",
            "claude-mythos-5",
        ] {
            assert_eq!(row(name), NATIVE, "{name}");
        }
        for name in [
            "claude-opus-4-20250514",
            "claude-opus-4@20250514",
            "claude-opus-4-7",
            "claude-sonnet-5",
            "claude-3-opus-20240229",
            "mock-claude",
            "claude-",
            "opus-5",
            "",
        ] {
            assert!(!row(name).native_system, "{name}");
        }
    }

    #[test]
    fn how_a_model_thinks_follows_from_its_version() {
        for (name, expected) in [
            ("claude-opus-4-6", ADAPTIVE),
            ("claude-sonnet-4-6", ADAPTIVE),
            ("claude-sonnet-5", ADAPTIVE),
            ("claude-sonnet-4-5-20250929", BY_BUDGET),
            ("claude-sonnet-4-0", BY_BUDGET),
            ("claude-haiku-4-5", BY_BUDGET),
            ("claude-3-7-sonnet-20250219", ANTHROPIC),
            ("deepseek-chat", ANTHROPIC),
        ] {
            assert_eq!(row(name), expected, "{name}");
        }
    }
}
