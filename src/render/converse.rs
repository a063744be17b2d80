//! What the models behind Amazon Bedrock's Converse API can do, by their ids.

use serde::Serialize;

use super::profile::{CallIdRule, FileKinds, OwnThinking, Profile};

/// How a model wants Converse to be spelt; of no matter on other wires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ConverseFacts {
    /// Whether a conversation may begin with a turn of the model.
    pub begins_with_reply: bool,
    /// What may stand in one message with the results of tools.
    pub beside_results: BesideResults,
    /// Whether a result says by a member of its own that it is a failure.
    pub result_status: bool,
    /// Whether a call can be asked for.
    pub tool_choice: bool,
    /// How it is told how much to reason.
    pub reasoning: ConverseReasoning,
}

/// What may stand in one message with the results of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BesideResults {
    /// Anything.
    Anything,
    /// Texts and images.
    TextsAndImages,
    /// Nothing else.
    Nothing,
}

/// How a model is told how much to reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConverseReasoning {
    /// Not at all.
    Untold,
    /// As a Claude model is that thinks as far as a budget of tokens lets it.
    ClaudeBudget,
    /// As a Claude model is that decides by itself how much it thinks.
    ClaudeAdaptive,
    /// As Nova is.
    Nova,
    /// As OpenAI's open models are.
    GptOss,
    /// As Qwen is.
    Qwen,
}

impl ConverseFacts {
    /// A model of which nothing is known.
    pub const CONSERVATIVE: Self = Self {
        begins_with_reply: false,
        beside_results: BesideResults::TextsAndImages,
        result_status: true,
        tool_choice: false,
        reasoning: ConverseReasoning::Untold,
    };
}

/// The files that Converse has words for; it takes them by their bytes alone.
const MEDIA_TYPES: &[&str] = &[
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "application/pdf",
    "application/msword",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.ms-excel",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "text/csv",
    "text/html",
    "text/plain",
    "text/markdown",
];

const READS_NOTHING: FileKinds = FileKinds { images: false, documents: false };
const READS_IMAGES: FileKinds = FileKinds { images: true, documents: false };
const READS_ALL: FileKinds = FileKinds { images: true, documents: true };

/// A model whose id does not tell what it is, and models of which nothing is special. What is signed
/// goes back, since it may be Claude behind a name that the operator gave.
pub(super) const BEDROCK: Profile = Profile {
    family: "bedrock",
    call_ids: CallIdRule::AtMost(64),
    max_tool_name: 64,
    own_thinking: OwnThinking::GoesBackSigned,
    files: READS_NOTHING,
    image_urls: false,
    media_types: Some(MEDIA_TYPES),
    converse: ConverseFacts::CONSERVATIVE,
    ..Profile::CONSERVATIVE
};

/// Claude before it thought.
pub(super) const CLAUDE: Profile = Profile {
    family: "bedrock_claude",
    files: READS_ALL,
    converse: ConverseFacts {
        begins_with_reply: true,
        tool_choice: true,
        ..ConverseFacts::CONSERVATIVE
    },
    ..BEDROCK
};

/// Claude that thinks by a budget.
pub(super) const CLAUDE_BUDGET: Profile = Profile {
    family: "bedrock_claude_budget",
    converse: ConverseFacts { reasoning: ConverseReasoning::ClaudeBudget, ..CLAUDE.converse },
    ..CLAUDE
};

/// Claude that decides by itself how much it thinks.
pub(super) const CLAUDE_ADAPTIVE: Profile = Profile {
    family: "bedrock_claude_adaptive",
    converse: ConverseFacts { reasoning: ConverseReasoning::ClaudeAdaptive, ..CLAUDE.converse },
    ..CLAUDE
};

/// A model of others than Anthropic, whose thinking has no place in a history.
pub(super) const OTHER: Profile = Profile {
    family: "bedrock_other",
    own_thinking: OwnThinking::IsLeftOut,
    converse: ConverseFacts {
        beside_results: BesideResults::Anything,
        ..ConverseFacts::CONSERVATIVE
    },
    ..BEDROCK
};

/// Nova that only reads text.
pub(super) const NOVA_TEXT: Profile = Profile {
    family: "bedrock_nova_text",
    converse: ConverseFacts { tool_choice: true, ..OTHER.converse },
    ..OTHER
};

/// Nova.
pub(super) const NOVA: Profile = Profile { family: "bedrock_nova", files: READS_ALL, ..NOVA_TEXT };

/// Nova 2, which reasons.
pub(super) const NOVA_2: Profile = Profile {
    family: "bedrock_nova_2",
    converse: ConverseFacts { reasoning: ConverseReasoning::Nova, ..NOVA.converse },
    ..NOVA
};

/// Llama.
pub(super) const LLAMA: Profile = Profile {
    family: "bedrock_llama",
    converse: ConverseFacts { beside_results: BesideResults::Nothing, ..OTHER.converse },
    ..OTHER
};

/// Llama that sees.
pub(super) const LLAMA_VISION: Profile =
    Profile { family: "bedrock_llama_vision", files: READS_IMAGES, ..LLAMA };

/// Mistral.
pub(super) const MISTRAL: Profile = Profile { family: "bedrock_mistral", ..LLAMA };

/// Writer's Palmyra.
pub(super) const PALMYRA: Profile = Profile {
    family: "bedrock_palmyra",
    converse: ConverseFacts { result_status: false, ..LLAMA.converse },
    ..LLAMA
};

/// Qwen.
pub(super) const QWEN: Profile = Profile {
    family: "bedrock_qwen",
    converse: ConverseFacts {
        begins_with_reply: true,
        tool_choice: true,
        reasoning: ConverseReasoning::Qwen,
        ..OTHER.converse
    },
    ..OTHER
};

/// OpenAI's open models.
pub(super) const GPT_OSS: Profile = Profile {
    family: "bedrock_gpt_oss",
    converse: ConverseFacts { reasoning: ConverseReasoning::GptOss, ..OTHER.converse },
    ..OTHER
};

/// What stands in the id of a model, and the row that it means; the first that fits counts.
const IDS: &[(&str, Profile)] = &[
    ("amazon.nova-2", NOVA_2),
    ("amazon.nova-micro", NOVA_TEXT),
    ("amazon.nova", NOVA),
    ("meta.llama4", LLAMA_VISION),
    ("meta.llama3-2-11b", LLAMA_VISION),
    ("meta.llama3-2-90b", LLAMA_VISION),
    ("meta.llama", LLAMA),
    ("mistral.", MISTRAL),
    ("writer.", PALMYRA),
    ("qwen.", QWEN),
    ("openai.gpt-oss", GPT_OSS),
    ("ai21.", OTHER),
    ("amazon.", OTHER),
    ("cohere.", OTHER),
    ("deepseek.", OTHER),
];

/// The row of a model: its id, with or without the region before it, or the resource name that ends
/// in one.
pub(super) fn row(id: &str) -> Profile {
    if let Some((_, name)) = id.split_once("anthropic.claude-") {
        return claude(name);
    }
    IDS.iter().find(|(known, _)| id.contains(known)).map_or(BEDROCK, |(_, row)| *row)
}

fn claude(name: &str) -> Profile {
    match version(name) {
        Some(version) if version >= (4, 6) => CLAUDE_ADAPTIVE,
        Some(version) if version >= (3, 7) => CLAUDE_BUDGET,
        Some(_) | None => CLAUDE,
    }
}

/// The version in `sonnet-4-5-20250929-v1:0` or `3-7-sonnet-20250219-v1:0`: its first number and the one
/// right after it. A number of more than two digits is a date.
fn version(name: &str) -> Option<(u32, u32)> {
    let number = |word: &str| word.parse().ok().filter(|_| word.len() <= 2);
    let mut words = name.split('-').map(number).skip_while(Option::is_none);
    Some((words.next().flatten()?, words.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::profile::ROWS;

    #[test]
    fn the_family_is_read_off_the_id_wherever_it_stands() {
        for (id, family) in [
            ("us.anthropic.claude-sonnet-4-6", "bedrock_claude_adaptive"),
            ("global.anthropic.claude-opus-4-6-v1", "bedrock_claude_adaptive"),
            ("anthropic.claude-opus-5", "bedrock_claude_adaptive"),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "bedrock_claude_budget"),
            ("us.anthropic.claude-sonnet-4-20250514-v1:0", "bedrock_claude_budget"),
            ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", "bedrock_claude_budget"),
            ("anthropic.claude-3-5-sonnet-20240620-v1:0", "bedrock_claude"),
            ("anthropic.claude-v2:1", "bedrock_claude"),
            ("us.amazon.nova-2-lite-v1:0", "bedrock_nova_2"),
            ("amazon.nova-micro-v1:0", "bedrock_nova_text"),
            ("amazon.nova-lite-v1:0", "bedrock_nova"),
            ("amazon.titan-text-lite-v1", "bedrock_other"),
            ("us.meta.llama4-scout-17b-instruct-v1:0", "bedrock_llama_vision"),
            ("meta.llama3-2-1b-instruct-v1:0", "bedrock_llama"),
            ("mistral.mistral-large-2402-v1:0", "bedrock_mistral"),
            ("us.writer.palmyra-x5-v1:0", "bedrock_palmyra"),
            ("qwen.qwen3-32b-v1:0", "bedrock_qwen"),
            ("openai.gpt-oss-120b-1:0", "bedrock_gpt_oss"),
            (
                "arn:aws:bedrock:us-east-1:1:inference-profile/us.amazon.nova-lite-v1:0",
                "bedrock_nova",
            ),
            ("arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", "bedrock"),
            ("", "bedrock"),
        ] {
            assert_eq!(row(id).family, family, "{id}");
        }
        assert!(IDS.iter().all(|(_, row)| ROWS.contains(row)));
    }

    #[test]
    fn no_model_takes_a_system_entry_in_mid_conversation() {
        let of_bedrock = |row: &&Profile| row.family.starts_with("bedrock");
        assert!(ROWS.iter().filter(of_bedrock).all(|row| !row.native_system));
    }
}
