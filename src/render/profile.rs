//! What a model behind a transport can do: a table of facts, one row a family.

use serde::Serialize;

use super::chat::ChatFacts;
use super::converse::{self, ConverseFacts};
use super::google::{self, GeminiGeneration};
use super::names::ToolNameRule;
use super::responses::{self, ResponsesFacts};
use super::{claude, vendors};
use crate::domain::model::{ModelSpec, ProfileOverrides, Provider};

/// What renderer and codec must know about a model behind its transport. Facts only, no behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
    /// Which call ids are accepted.
    pub call_ids: CallIdRule,
    /// The longest tool name that is accepted.
    pub max_tool_name: usize,
    /// Which characters a tool name is made of.
    pub tool_names: ToolNameRule,
    /// What it makes of a conversation that ends with its own turn.
    pub own_end: OwnEnd,
    /// What becomes of thinking that the same provider issued.
    pub own_thinking: OwnThinking,
    /// Which files that are no text are read on the user's channel.
    pub files: FileKinds,
    /// Whether images are read from their address.
    pub image_urls: bool,
    /// The media types of files that can be told at all; `None`: any.
    pub media_types: Option<&'static [&'static str]>,
    /// How many tokens a conversation may have, its reply included; `None`: not known.
    pub context_window: Option<u32>,
    /// The upper bound of a reply where a wire asks for one and the agent sets none.
    pub default_max_tokens: u32,
    /// How a Claude model is told to think.
    pub thinking: Thinking,
    /// How it wants Responses to be spelt; of no matter on other wires.
    pub responses: ResponsesFacts,
    /// Which generation of Google's models it is; the first one where it is none of them.
    pub gemini: GeminiGeneration,
    /// How it wants Converse to be spelt; of no matter on other wires.
    pub converse: ConverseFacts,
    /// How it wants Chat Completions to be spelt; of no matter on other wires.
    pub chat: ChatFacts,
}

/// How a Claude model is told to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Thinking {
    /// By a budget of tokens.
    Budget,
    /// By an effort; it decides by itself how much it thinks.
    Adaptive,
}

/// Which files that are no text a model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FileKinds {
    /// Images.
    pub images: bool,
    /// Others, such as PDF.
    pub documents: bool,
}

/// How an upper bound of a reply is spelt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EmptyContent {
    /// `null`.
    Null,
    /// The empty text, for servers that refuse `null`.
    EmptyText,
}

/// What a model makes of a conversation that ends with its own turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnEnd {
    /// A turn of its own follows.
    IsFollowed,
    /// It goes on with that turn or refuses to, so that the user has to stand behind it.
    IsContinued,
}

/// What becomes of thinking that the same provider issued. Thinking of others is always framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnThinking {
    /// The wire has no place for it.
    IsLeftOut,
    /// It goes back as it is.
    GoesBack,
    /// It goes back when it is signed, and counts as foreign when it is not.
    GoesBackSigned,
}

/// Which call ids are accepted, in characters of `[A-Za-z0-9_-]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallIdRule {
    /// Up to so many.
    AtMost(usize),
    /// Letters and digits alone, and exactly so many.
    Exactly(usize),
}

impl CallIdRule {
    /// Whether an id can be told as it is.
    pub fn accepts(self, id: &str) -> bool {
        match self {
            Self::AtMost(most) => (1..=most).contains(&id.len()) && id.chars().all(is_name_char),
            Self::Exactly(n) => id.len() == n && id.bytes().all(|b| b.is_ascii_alphanumeric()),
        }
    }
}

/// Whether every provider accepts a character in an id or in the name of a tool.
pub const fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// The model that is written into the agent: it accepts everything.
const SCRIPTED: Profile = Profile {
    family: "scripted",
    native_system: true,
    max_tokens: MaxTokensName::MaxTokens,
    empty_content: EmptyContent::Null,
    stream_usage: true,
    call_ids: CallIdRule::AtMost(128),
    max_tool_name: 64,
    tool_names: ToolNameRule::Word,
    own_end: OwnEnd::IsFollowed,
    own_thinking: OwnThinking::GoesBack,
    files: FileKinds { images: true, documents: true },
    image_urls: true,
    media_types: None,
    context_window: None,
    default_max_tokens: 4_096,
    thinking: Thinking::Budget,
    responses: ResponsesFacts::COMPATIBLE,
    gemini: GeminiGeneration::First,
    converse: ConverseFacts::CONSERVATIVE,
    chat: ChatFacts::OPENAI,
};

/// OpenAI itself.
const OPENAI: Profile = Profile {
    family: "openai",
    native_system: true,
    max_tokens: MaxTokensName::MaxCompletionTokens,
    empty_content: EmptyContent::Null,
    stream_usage: true,
    call_ids: CallIdRule::AtMost(64),
    max_tool_name: 64,
    tool_names: ToolNameRule::Word,
    own_end: OwnEnd::IsFollowed,
    own_thinking: OwnThinking::IsLeftOut,
    files: FileKinds { images: true, documents: true },
    image_urls: true,
    media_types: None,
    context_window: None,
    default_max_tokens: 4_096,
    thinking: Thinking::Budget,
    responses: ResponsesFacts::COMPATIBLE,
    gemini: GeminiGeneration::First,
    converse: ConverseFacts::CONSERVATIVE,
    chat: ChatFacts::OPENAI,
};

/// Any other server that speaks OpenAI's protocol: the conservative row.
const OPENAI_COMPATIBLE: Profile = Profile {
    family: "openai_compatible",
    native_system: false,
    max_tokens: MaxTokensName::MaxTokens,
    empty_content: EmptyContent::EmptyText,
    own_end: OwnEnd::IsContinued,
    own_thinking: OwnThinking::GoesBack,
    files: FileKinds { images: false, documents: false },
    chat: ChatFacts { think_tags: true, ..ChatFacts::OPENAI },
    ..OPENAI
};

/// OpenAI's models at Azure.
const AZURE: Profile = Profile { family: "azure", ..OPENAI };

/// Every row.
pub const ROWS: &[Profile] = &[
    SCRIPTED,
    OPENAI,
    OPENAI_COMPATIBLE,
    AZURE,
    vendors::OPENROUTER,
    vendors::OPENROUTER_OPENAI,
    vendors::XAI,
    vendors::MISTRAL,
    vendors::GROQ,
    vendors::COHERE,
    vendors::DEEPSEEK,
    vendors::MOONSHOT,
    vendors::ZAI,
    vendors::GEMINI_OPENAI,
    vendors::OLLAMA,
    claude::ANTHROPIC,
    claude::BY_BUDGET,
    claude::ADAPTIVE,
    claude::NATIVE,
    responses::OPENAI,
    responses::CODEX,
    responses::AZURE,
    responses::BEDROCK,
    responses::XAI,
    responses::COMPATIBLE,
    responses::OPENROUTER,
    google::GEMINI,
    google::GEMINI_2_5,
    google::GEMINI_3,
    converse::BEDROCK,
    converse::CLAUDE,
    converse::CLAUDE_BUDGET,
    converse::CLAUDE_ADAPTIVE,
    converse::OTHER,
    converse::NOVA_TEXT,
    converse::NOVA,
    converse::NOVA_2,
    converse::LLAMA,
    converse::LLAMA_VISION,
    converse::MISTRAL,
    converse::PALMYRA,
    converse::QWEN,
    converse::GPT_OSS,
];

/// A transport that is known by its host: the host itself or, with a leading dot, all below it; how
/// the names of the models begin that the row is about; and the row.
const HOSTS: &[(&str, &str, Profile)] = &[
    ("api.openai.com", "", OPENAI),
    (".openai.azure.com", "", AZURE),
    ("openrouter.ai", "openai/", vendors::OPENROUTER_OPENAI),
    ("openrouter.ai", "", vendors::OPENROUTER),
    ("api.x.ai", "", vendors::XAI),
    ("api.mistral.ai", "", vendors::MISTRAL),
    ("api.groq.com", "", vendors::GROQ),
    ("api.cohere.ai", "", vendors::COHERE),
    ("api.cohere.com", "", vendors::COHERE),
    ("api.deepseek.com", "", vendors::DEEPSEEK),
    ("api.moonshot.ai", "", vendors::MOONSHOT),
    ("api.moonshot.cn", "", vendors::MOONSHOT),
    ("api.z.ai", "", vendors::ZAI),
    ("open.bigmodel.cn", "", vendors::ZAI),
    ("generativelanguage.googleapis.com", "", vendors::GEMINI_OPENAI),
];

impl Profile {
    /// The row of which the least is assumed, for other rows to differ from.
    pub(super) const CONSERVATIVE: Self = OPENAI_COMPATIBLE;
    /// OpenAI's row, for others to differ from.
    pub(super) const OF_OPENAI: Self = OPENAI;

    /// The row of a model behind its transport, with the fields that the agent overrides; what is not
    /// known gets the conservative one.
    pub fn resolve(model: &ModelSpec) -> Self {
        vendors::of_model(Self::row(model), &model.name).overridden(model.profile)
    }

    /// The row with this name, as it stands.
    pub fn named(family: &str) -> Option<Self> {
        ROWS.iter().find(|row| row.family == family).copied()
    }

    fn row(model: &ModelSpec) -> Self {
        match (model.provider, model.base_url.as_deref()) {
            (Provider::Scripted, _) => SCRIPTED,
            (Provider::Anthropic, None) => claude::row(&model.name),
            // Another host speaks the wire, but what its models can do is not known.
            (Provider::Anthropic, Some(url)) => match https_host(url).as_deref() {
                Some("api.anthropic.com") => claude::row(&model.name),
                Some(_) | None => claude::ANTHROPIC,
            },
            (Provider::Azure, _) => AZURE,
            (Provider::Bedrock, _) => converse::row(&model.name),
            (Provider::Gemini | Provider::Vertex, _) => google::row(&model.name),
            (Provider::Mistral, _) => vendors::MISTRAL,
            (Provider::Groq, _) => vendors::GROQ,
            (Provider::Xai, _) => vendors::XAI,
            (Provider::Deepseek, _) => vendors::DEEPSEEK,
            (Provider::Ollama, _) => vendors::OLLAMA,
            (Provider::Openrouter, _) if model.name.starts_with("openai/") => {
                vendors::OPENROUTER_OPENAI
            }
            (Provider::Openrouter, _) => vendors::OPENROUTER,
            (Provider::OpenaiResponses, url) => responses::row(url, &model.name),
            (Provider::Openai, None) => OPENAI,
            (Provider::Openai, Some(url)) => {
                row_at(HOSTS, url, &model.name).unwrap_or(OPENAI_COMPATIBLE)
            }
        }
    }

    fn overridden(self, by: ProfileOverrides) -> Self {
        let max_call_id = by.max_call_id.map(|most| CallIdRule::AtMost(most.into()));
        Self {
            native_system: by.native_system.unwrap_or(self.native_system),
            files: FileKinds {
                images: by.images.unwrap_or(self.files.images),
                documents: by.documents.unwrap_or(self.files.documents),
            },
            call_ids: max_call_id.unwrap_or(self.call_ids),
            max_tool_name: by.max_tool_name.map_or(self.max_tool_name, usize::from),
            context_window: by.context_window.or(self.context_window),
            chat: self.chat.alternating(by.alternates),
            ..self
        }
    }
}

/// The row of a model at an address, where its host is known.
pub(super) fn row_at(hosts: &[(&str, &str, Profile)], url: &str, model: &str) -> Option<Profile> {
    let host = https_host(url)?;
    let is_meant = |(known, names, _): &&(&str, &str, Profile)| {
        is_at(&host, known) && model.starts_with(names)
    };
    hosts.iter().find(is_meant).map(|(_, _, row)| *row)
}

/// The host of an `https` address without a port or with 443, in lower case.
fn https_host(url: &str) -> Option<String> {
    let rest = strip_prefix_ignoring_case(url, "https://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.strip_suffix(":443").unwrap_or(authority);
    Some(host.to_ascii_lowercase())
}

fn is_at(host: &str, known: &str) -> bool {
    if known.starts_with('.') { host.ends_with(known) } else { host == known }
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::model::ModelSettings;

    fn model(provider: Provider, name: &str, base_url: Option<&str>) -> ModelSpec {
        ModelSpec {
            provider,
            name: name.to_owned(),
            base_url: base_url.map(str::to_owned),
            api_key: None,
            profile: ProfileOverrides::default(),
            settings: ModelSettings::default(),
            script: Vec::new(),
            fallbacks: Vec::new(),
            price: None,
        }
    }

    fn family(provider: Provider, base_url: Option<&str>) -> &'static str {
        Profile::resolve(&model(provider, "m", base_url)).family
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
    fn hosts_whose_models_take_system_messages_anywhere_are_known() {
        for (url, expected) in [
            ("https://api.mistral.ai/v1", "mistral"),
            ("https://api.groq.com/openai/v1", "groq"),
            ("https://api.cohere.ai/compatibility/v1", "cohere"),
            ("https://my-place.openai.azure.com/openai/v1", "azure"),
        ] {
            let profile = Profile::resolve(&model(Provider::Openai, "m", Some(url)));
            assert_eq!((profile.family, profile.native_system), (expected, true), "{url}");
        }
        for url in ["https://evil-openai.azure.com.example", "https://openai.azure.com.example"] {
            assert_eq!(family(Provider::Openai, Some(url)), "openai_compatible");
        }
    }

    #[test]
    fn a_router_is_judged_by_the_model_behind_it() {
        let native = |name: &str| {
            let url = Some("https://openrouter.ai/api/v1");
            Profile::resolve(&model(Provider::Openai, name, url)).native_system
        };
        assert!(native("openai/gpt-5-mini"));
        assert!(!native("google/gemini-3-pro"));
        assert!(!native("not-openai/gpt-5-mini"));
    }

    #[test]
    fn an_agent_overrides_single_fields_and_nothing_else() {
        let mut model = model(Provider::Openai, "m", Some("http://127.0.0.1:8000/v1"));
        let row = Profile::resolve(&model);
        model.profile = ProfileOverrides {
            native_system: Some(true),
            max_call_id: Some(40),
            context_window: Some(4096),
            ..ProfileOverrides::default()
        };
        let expected = Profile {
            native_system: true,
            call_ids: CallIdRule::AtMost(40),
            context_window: Some(4096),
            ..row
        };
        assert_eq!(Profile::resolve(&model), expected);
    }

    #[test]
    fn the_scripted_model_has_a_row_of_its_own_wherever_it_is() {
        assert_eq!(family(Provider::Scripted, Some("http://x")), "scripted");
    }

    #[test]
    fn rows_have_distinct_names_and_every_known_host_has_one() {
        let names: std::collections::BTreeSet<_> = ROWS.iter().map(|row| row.family).collect();
        assert_eq!(names.len(), ROWS.len());
        assert!(HOSTS.iter().all(|(_, _, row)| ROWS.contains(row)));
    }

    #[test]
    fn call_ids_are_judged_by_length_and_letters() {
        assert!(CallIdRule::AtMost(4).accepts("a_-1"));
        for id in ["", "abcde", "a b", "é"] {
            assert!(!CallIdRule::AtMost(4).accepts(id), "{id}");
        }
        assert!(CallIdRule::Exactly(9).accepts("abcDEF123"));
        for id in ["abcDEF12", "abcDEF1234", "abcDEF12_"] {
            assert!(!CallIdRule::Exactly(9).accepts(id), "{id}");
        }
    }
}
