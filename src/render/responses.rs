//! What differs between hosts that speak OpenAI Responses: their facts and their rows.

use serde::Serialize;

use super::profile::{FileKinds, OwnThinking, Profile, row_at};

/// How a host wants Responses to be spelt; of no matter on other wires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ResponsesFacts {
    /// Whether reasoning is sealed when that is asked for, and only taken back so.
    pub sealed_reasoning: bool,
    /// Whether the ids of a reply's items go back with them. Hosts that check how reasoning and what it
    /// led to belong together do so by these ids, and refuse half of a pair for ever.
    pub item_ids: bool,
    /// Whether a request without standing instructions is refused.
    pub needs_instructions: bool,
}

impl ResponsesFacts {
    /// A host that takes the items of a reply back as they came.
    pub const COMPATIBLE: Self =
        Self { sealed_reasoning: false, item_ids: true, needs_instructions: false };

    /// OpenAI, and who passes its models on.
    const OPENAI: Self =
        Self { sealed_reasoning: true, item_ids: false, needs_instructions: false };
}

/// OpenAI itself.
pub(super) const OPENAI: Profile = Profile {
    family: "openai_responses",
    own_thinking: OwnThinking::GoesBack,
    responses: ResponsesFacts::OPENAI,
    ..Profile::OF_OPENAI
};

/// `ChatGPT`'s own address.
pub(super) const CODEX: Profile = Profile {
    family: "openai_responses_codex",
    responses: ResponsesFacts { needs_instructions: true, ..ResponsesFacts::OPENAI },
    ..OPENAI
};

/// OpenAI's models at Azure.
pub(super) const AZURE: Profile = Profile { family: "openai_responses_azure", ..OPENAI };

/// OpenAI's models at Bedrock.
pub(super) const BEDROCK: Profile = Profile { family: "openai_responses_bedrock", ..OPENAI };

/// xAI.
pub(super) const XAI: Profile = Profile {
    family: "openai_responses_xai",
    native_system: false,
    files: FileKinds { images: false, documents: false },
    ..OPENAI
};

/// Any other server: the conservative row.
pub(super) const COMPATIBLE: Profile = Profile {
    family: "openai_responses_compatible",
    native_system: false,
    files: FileKinds { images: false, documents: false },
    responses: ResponsesFacts::COMPATIBLE,
    ..OPENAI
};

/// OpenAI's models through `OpenRouter`, which wants the ids of items.
pub(super) const OPENROUTER: Profile = Profile {
    family: "openai_responses_openrouter",
    native_system: true,
    responses: ResponsesFacts { sealed_reasoning: true, ..ResponsesFacts::COMPATIBLE },
    ..COMPATIBLE
};

/// The hosts that are known, as in `profile`.
const HOSTS: &[(&str, &str, Profile)] = &[
    ("api.openai.com", "", OPENAI),
    ("chatgpt.com", "", CODEX),
    (".openai.azure.com", "", AZURE),
    (".services.ai.azure.com", "", AZURE),
    (".api.aws", "openai.", BEDROCK),
    ("api.x.ai", "", XAI),
    ("openrouter.ai", "openai/", OPENROUTER),
];

/// The row of a model at an address; without one it is OpenAI's.
pub(super) fn row(base_url: Option<&str>, model: &str) -> Profile {
    base_url.map_or(OPENAI, |url| row_at(HOSTS, url, model).unwrap_or(COMPATIBLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_known_by_their_address_and_the_model_behind_it() {
        for (url, model, expected) in [
            ("https://api.openai.com/v1", "m", "openai_responses"),
            ("https://chatgpt.com/backend-api/codex", "m", "openai_responses_codex"),
            ("https://place.openai.azure.com/openai/v1", "m", "openai_responses_azure"),
            ("https://place.services.ai.azure.com/openai/v1", "m", "openai_responses_azure"),
            (
                "https://bedrock-mantle.eu-west-1.api.aws/v1",
                "openai.gpt-oss",
                "openai_responses_bedrock",
            ),
            (
                "https://bedrock-mantle.eu-west-1.api.aws/v1",
                "qwen.q",
                "openai_responses_compatible",
            ),
            ("https://api.x.ai/v1", "m", "openai_responses_xai"),
            ("https://openrouter.ai/api/v1", "openai/gpt-5", "openai_responses_openrouter"),
            ("https://openrouter.ai/api/v1", "google/gemini", "openai_responses_compatible"),
            ("https://api.deepseek.com", "m", "openai_responses_compatible"),
            ("http://127.0.0.1:8000/v1", "m", "openai_responses_compatible"),
        ] {
            assert_eq!(row(Some(url), model).family, expected, "{url} {model}");
        }
        assert_eq!(row(None, "m").family, "openai_responses");
    }

    #[test]
    fn only_the_known_hosts_are_told_of_the_system_in_the_middle_and_asked_to_seal() {
        let facts = |family: &str| {
            let row = Profile::named(family).unwrap();
            (row.native_system, row.responses.sealed_reasoning, row.responses.item_ids)
        };
        for family in [
            "openai_responses",
            "openai_responses_codex",
            "openai_responses_azure",
            "openai_responses_bedrock",
        ] {
            assert_eq!(facts(family), (true, true, false), "{family}");
        }
        assert_eq!(facts("openai_responses_xai"), (false, true, false));
        assert_eq!(facts("openai_responses_openrouter"), (true, true, true));
        assert_eq!(facts("openai_responses_compatible"), (false, false, true));
    }

    #[test]
    fn every_known_host_has_a_listed_row() {
        let rows = crate::render::profile::ROWS;
        assert!(HOSTS.iter().all(|(_, _, row)| rows.contains(row)));
    }
}
