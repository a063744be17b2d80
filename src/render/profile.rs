//! What a model behind a transport can do: a table of facts, one row a family.

use crate::domain::model::{ModelSpec, Provider};

/// What renderer and codec must know about a model behind its transport. Facts only, no behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// The row's name, as stored with a request.
    pub family: &'static str,
    /// Whether a system entry is understood in the middle of a conversation.
    pub native_system: bool,
    /// How an upper bound of a reply is spelt.
    pub max_tokens: MaxTokensName,
    /// What stands for the content of an assistant message that only calls tools.
    pub empty_content: EmptyContent,
    /// Whether token counts of a streamed reply can be asked for.
    pub stream_usage: bool,
    /// The longest call id that is accepted, in characters of `[A-Za-z0-9_-]`.
    pub max_call_id: usize,
    /// The longest tool name that is accepted, in characters of `[A-Za-z0-9_-]`.
    pub max_tool_name: usize,
    /// What becomes of thinking that the same provider issued.
    pub own_thinking: OwnThinking,
}

/// How an upper bound of a reply is spelt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxTokensName {
    /// `max_tokens`.
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

impl MaxTokensName {
    /// The member's name in the request.
    pub const fn member(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// What stands for the content of an assistant message that only calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyContent {
    /// `null`.
    Null,
    /// The empty text, for servers that refuse `null`.
    EmptyText,
}

/// What becomes of thinking that the same provider issued. Thinking of others is always framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnThinking {
    /// The wire has no place for it.
    IsLeftOut,
    /// It goes back as it is.
    GoesBack,
    /// It goes back when it is signed, and counts as foreign when it is not.
    GoesBackSigned,
}

/// The model that is written into the agent: it accepts everything.
const SCRIPTED: Profile = Profile {
    family: "scripted",
    native_system: true,
    max_tokens: MaxTokensName::MaxTokens,
    empty_content: EmptyContent::Null,
    stream_usage: true,
    max_call_id: 128,
    max_tool_name: 64,
    own_thinking: OwnThinking::GoesBack,
};

/// OpenAI itself.
const OPENAI: Profile = Profile {
    family: "openai",
    native_system: true,
    max_tokens: MaxTokensName::MaxCompletionTokens,
    empty_content: EmptyContent::Null,
    stream_usage: true,
    max_call_id: 64,
    max_tool_name: 64,
    own_thinking: OwnThinking::IsLeftOut,
};

/// Any other server that speaks OpenAI's protocol: the conservative row.
const OPENAI_COMPATIBLE: Profile = Profile {
    family: "openai_compatible",
    native_system: false,
    max_tokens: MaxTokensName::MaxTokens,
    empty_content: EmptyContent::EmptyText,
    stream_usage: true,
    max_call_id: 64,
    max_tool_name: 64,
    own_thinking: OwnThinking::IsLeftOut,
};

/// Every row.
pub const ROWS: &[Profile] = &[SCRIPTED, OPENAI, OPENAI_COMPATIBLE];

impl Profile {
    /// The row of a model behind its transport; what is not known gets the conservative one.
    pub fn resolve(model: &ModelSpec) -> Self {
        match model.provider {
            Provider::Scripted => SCRIPTED,
            Provider::Openai if is_openai_itself(model.base_url.as_deref()) => OPENAI,
            Provider::Openai => OPENAI_COMPATIBLE,
        }
    }
}

/// Whether the address is OpenAI's own: absent, or `https` on its host without a port or with 443.
fn is_openai_itself(base_url: Option<&str>) -> bool {
    let Some(url) = base_url else { return true };
    let Some(rest) = strip_prefix_ignoring_case(url, "https://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.strip_suffix(":443").unwrap_or(authority);
    host.eq_ignore_ascii_case("api.openai.com")
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(provider: Provider, base_url: Option<&str>) -> &'static str {
        let model = ModelSpec {
            provider,
            name: "m".to_owned(),
            base_url: base_url.map(str::to_owned),
            settings: crate::domain::model::ModelSettings::default(),
            script: Vec::new(),
        };
        Profile::resolve(&model).family
    }

    #[test]
    fn openai_is_recognised_by_its_own_host_only() {
        for url in [
            None,
            Some("https://api.openai.com/v1"),
            Some("HTTPS://API.OpenAI.com"),
            Some("https://api.openai.com:443/v1"),
        ] {
            assert_eq!(family(Provider::Openai, url), "openai", "{url:?}");
        }
        for url in [
            "http://127.0.0.1:8000/v1",
            "https://api.openai.com.example/v1",
            "https://api.openai.com@evil.example/v1",
            "https://example.com/api.openai.com",
            "http://api.openai.com/v1",
            "https://api.openai.com:8443/v1",
            "https://é",
        ] {
            assert_eq!(family(Provider::Openai, Some(url)), "openai_compatible", "{url}");
        }
    }

    #[test]
    fn the_scripted_model_has_a_row_of_its_own_wherever_it_is() {
        assert_eq!(family(Provider::Scripted, Some("http://x")), "scripted");
    }

    #[test]
    fn rows_have_distinct_names_and_all_accept_ids_of_64_characters() {
        let names: std::collections::BTreeSet<_> = ROWS.iter().map(|row| row.family).collect();
        assert_eq!(names.len(), ROWS.len());
        assert!(ROWS.iter().all(|row| row.max_call_id >= 64));
    }
}
