//! Models: who answers, with which settings, at what price in tokens, and how a call to one fails.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, Type};

use super::budget::Price;
pub use super::provider::Provider;
use super::script::ScriptTurn;
use super::secret::SecretRef;
use crate::labels;

/// Which model an agent uses and how it is called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Who serves the model.
    pub provider: Provider,
    /// The provider's name for the model; 1–256 characters.
    #[schema(min_length = 1, max_length = 256, examples("gpt-5-mini"))]
    pub name: String,
    /// Where the provider is reached, up to and including the version segment, for example
    /// `http://127.0.0.1:8000/v1`. Absent: the provider's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The secret that is the key for it, which has to be bound to the origin that the model is reached
    /// at. Absent: the server's own key, where that may go there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<SecretRef>,
    /// What is known of the model behind its address, where the server does not know it better.
    #[serde(default, skip_serializing_if = "ProfileOverrides::is_empty")]
    pub profile: ProfileOverrides,
    /// Sampling and size settings. Absent settings are not sent.
    #[serde(default, skip_serializing_if = "ModelSettings::is_empty")]
    pub settings: ModelSettings,
    /// What it costs, where that is not what the server's price table says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Only for provider `scripted`: what it answers, turn by turn. Past the end the last entry
    /// repeats. At most 1,000 entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub script: Vec<ScriptTurn>,
    /// Models to ask, in order, when this one has failed for good in a turn; the next turn begins with
    /// this one again. A failure that another model would share, such as a refused request, ends the run
    /// all the same. At most 4, and they have no fallbacks of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 4, no_recursion)]
    pub fallbacks: Vec<Self>,
}

impl ModelSpec {
    /// Where it is reached, as host and port; `None` where that is not said here.
    pub fn host(&self) -> Option<String> {
        let url = self.base_url.as_deref().or_else(|| self.provider.transport().base_url)?;
        let (_, rest) = url.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        Some(authority.to_ascii_lowercase())
    }
}

/// Facts about a model behind its address that take the place of what the server assumes; each is
/// left as assumed when absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileOverrides {
    /// Whether it understands system messages in the middle of a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_system: Option<bool>,
    /// Whether it reads images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
    /// Whether it reads files that are neither text nor image, such as PDF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<bool>,
    /// Whether user and model have to take turns, as the chat templates of some local models ask for:
    /// neighbouring messages of the user are then sent as one. Only for OpenAI Chat Completions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternates: Option<bool>,
    /// The longest call id it accepts, 8–128 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 8, maximum = 128)]
    pub max_call_id: Option<u16>,
    /// The longest tool name it accepts, 16–128 characters. Longer names are cut for it; where two would
    /// be the same, one ends in a hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 16, maximum = 128)]
    pub max_tool_name: Option<u16>,
    /// How many tokens a conversation may have, its reply included; 1,024 to 1,000,000,000. Absent: unknown,
    /// and the conversation is sent as it is until the provider refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1024, maximum = 1_000_000_000)]
    pub context_window: Option<u32>,
}

impl ProfileOverrides {
    /// Whether everything is left as assumed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Settings of a model call; each is left to the provider when absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    /// Sampling temperature, 0–2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.0, maximum = 2.0)]
    pub temperature: Option<f64>,
    /// Nucleus sampling, 0–1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.0, maximum = 1.0)]
    pub top_p: Option<f64>,
    /// Upper bound of a reply in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 4_294_967_295_u64)]
    pub max_output_tokens: Option<u32>,
    /// Sampling seed, where the provider has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<i64>,
    /// Texts at which the reply stops; at most 4.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = stops)]
    pub stop: Vec<String>,
    /// Reasoning effort, as the provider spells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub reasoning_effort: Option<String>,
    /// `auto`, `none`, `required` or the name of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<String>,
    /// Whether the model may ask for several calls in one reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Whether the provider itself holds the answer to the agent's `output_schema`, where it can. Off by
    /// default: the answer then comes through the tool `final_answer`, or as text that is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_output: Option<bool>,
    /// Whether replies are streamed; on by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<bool>,
    /// Members added to the request body as they are, for what has no setting of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub extra_body: Option<serde_json::Map<String, Value>>,
}

/// Texts at which a reply stops are not empty.
fn stops() -> Schema {
    let text =
        ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(256));
    let text = text.build();
    let stops = ArrayBuilder::new().items(text).max_items(Some(4));
    stops.description(Some("Texts at which the reply stops; at most 4.")).into()
}

impl ModelSettings {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

labels! {
    /// Why a model stopped.
    FinishReason {
        /// It was done.
        Stop = "stop",
        /// The size limit cut it off.
        Length = "length",
        /// It asks for tools.
        ToolCalls = "tool_calls",
        /// The provider withheld content.
        ContentFilter = "content_filter",
        /// The provider reports an error as the reason.
        Error = "error",
        /// Anything else, or nothing.
        Other = "other",
    }
}

/// Tokens of one reply or of a whole run. `input` includes the cached ones, `output` the reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Tokens read, cached ones included.
    pub input: u64,
    /// Tokens written, reasoning included.
    pub output: u64,
    /// Of the input: read from the provider's cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Of the input: written to the provider's cache.
    #[serde(default)]
    pub cache_write: u64,
    /// Of the output: reasoning.
    #[serde(default)]
    pub reasoning: u64,
}

impl Usage {
    /// The sum, as far as it can be kept: a run's tokens are stored in 63 bits.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let sum = |one: u64, other: u64| one.saturating_add(other).min(i64::MAX.unsigned_abs());
        Self {
            input: sum(self.input, other.input),
            output: sum(self.output, other.output),
            cache_read: sum(self.cache_read, other.cache_read),
            cache_write: sum(self.cache_write, other.cache_write),
            reasoning: sum(self.reasoning, other.reasoning),
        }
    }
}

labels! {
    /// Why a call to a model failed.
    ModelErrorKind {
        /// The key was refused.
        Auth = "auth",
        /// The key may not do this, or the server does not call the model's `base_url`.
        Permission = "permission",
        /// No such model or endpoint.
        NotFound = "not_found",
        /// The account has nothing left.
        Quota = "quota",
        /// Too many requests for now.
        RateLimit = "rate_limit",
        /// The request was refused.
        BadRequest = "bad_request",
        /// The conversation does not fit the model.
        ContextWindow = "context_window",
        /// The request body was too large.
        TooLarge = "too_large",
        /// The provider withheld the reply.
        ContentFilter = "content_filter",
        /// The model could not write a valid tool call.
        ToolGenerationFailed = "tool_generation_failed",
        /// The provider is overloaded.
        Overloaded = "overloaded",
        /// The provider is not available.
        Unavailable = "unavailable",
        /// The provider failed.
        Server = "server",
        /// The turn took longer than `model_timeout_ms`, or the provider gave up waiting.
        Timeout = "timeout",
        /// The provider could not be reached or hung up.
        Transport = "transport",
        /// The provider's answer is not what its API says.
        Protocol = "protocol",
        /// The stream ended before its end marker.
        TruncatedStream = "truncated_stream",
        /// The model keeps answering with nothing that can be used.
        UnusableOutput = "unusable_output",
        /// The request would have broken a frame, and was not sent: a fault of the server.
        FramingViolation = "framing_violation",
        /// The secret that is the key for it cannot be had, so that the request was not sent.
        SecretUnavailable = "secret_unavailable",
    }
}

impl ModelErrorKind {
    /// Whether another attempt of the same turn may succeed (`runs.md` 6, `providers.md` 1.4).
    pub const fn is_retryable(self) -> bool {
        match self {
            Self::RateLimit
            | Self::ToolGenerationFailed
            | Self::Overloaded
            | Self::Unavailable
            | Self::Server
            | Self::Timeout
            | Self::Transport
            | Self::Protocol
            | Self::TruncatedStream => true,
            Self::Auth
            | Self::Permission
            | Self::NotFound
            | Self::Quota
            | Self::BadRequest
            | Self::ContextWindow
            | Self::TooLarge
            | Self::ContentFilter
            | Self::UnusableOutput
            | Self::FramingViolation
            | Self::SecretUnavailable => false,
        }
    }

    /// Whether another model may do what one has failed to do. What is wrong with the request or with
    /// what was asked for is as wrong elsewhere.
    pub const fn may_pass_elsewhere(self) -> bool {
        match self {
            Self::BadRequest
            | Self::ContentFilter
            | Self::UnusableOutput
            | Self::FramingViolation => false,
            Self::Auth
            | Self::Permission
            | Self::NotFound
            | Self::Quota
            | Self::RateLimit
            | Self::ContextWindow
            | Self::TooLarge
            | Self::ToolGenerationFailed
            | Self::Overloaded
            | Self::Unavailable
            | Self::Server
            | Self::Timeout
            | Self::Transport
            | Self::Protocol
            | Self::TruncatedStream
            | Self::SecretUnavailable => true,
        }
    }
}

/// A call to a model that failed.
///
/// `Display` is the caller's voice: it never repeats what the provider wrote. The provider's own
/// words are in `operator_detail`, for the log only.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", self.caller_detail())]
pub struct ModelError {
    /// What went wrong.
    pub kind: ModelErrorKind,
    /// Who was asked.
    pub provider: Provider,
    /// The HTTP status, where there was one.
    pub provider_status: Option<u16>,
    /// The provider's error code, where it gave one.
    pub provider_code: Option<String>,
    /// How long the provider asks to wait.
    pub retry_after_ms: Option<u64>,
    /// Whether another attempt may succeed.
    pub retryable: bool,
    /// What the operator should know; may hold the provider's text.
    pub operator_detail: String,
}

impl ModelError {
    /// An error of a kind, with the kind's own answer to whether it is retryable.
    pub fn new(
        provider: Provider,
        kind: ModelErrorKind,
        operator_detail: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            provider,
            provider_status: None,
            provider_code: None,
            retry_after_ms: None,
            retryable: kind.is_retryable(),
            operator_detail: operator_detail.into(),
        }
    }

    fn caller_detail(&self) -> String {
        let what = match self.kind {
            ModelErrorKind::Auth => "the model provider refused the key",
            ModelErrorKind::Permission => "this request to the model provider is not allowed",
            ModelErrorKind::NotFound => "the model provider knows no such model or endpoint",
            ModelErrorKind::Quota => "the account at the model provider has no quota left",
            ModelErrorKind::RateLimit => "the model provider limits the rate of requests",
            ModelErrorKind::BadRequest => "the model provider refused the request",
            ModelErrorKind::ContextWindow => {
                "the conversation does not fit the model's context window"
            }
            ModelErrorKind::TooLarge => "the request is too large for the model provider",
            ModelErrorKind::ContentFilter => "the model provider withheld the reply",
            ModelErrorKind::ToolGenerationFailed => "the model could not write a valid tool call",
            ModelErrorKind::Overloaded => "the model provider is overloaded",
            ModelErrorKind::Unavailable => "the model provider is not available",
            ModelErrorKind::Server => "the model provider failed",
            ModelErrorKind::Timeout => "the model did not answer in time",
            ModelErrorKind::Transport => "the model provider could not be reached or hung up",
            ModelErrorKind::Protocol => "the model provider's answer could not be read",
            ModelErrorKind::TruncatedStream => "the model's reply was cut off before its end",
            ModelErrorKind::UnusableOutput => "the model's replies held nothing that could be used",
            ModelErrorKind::FramingViolation => "the request was not sent: a frame in it is broken",
            ModelErrorKind::SecretUnavailable => {
                "the request was not sent: the secret that is the model's key is not available"
            }
        };
        match self.provider_status {
            Some(status) => format!("{what} (provider `{}`, status {status})", self.provider),
            None => format!("{what} (provider `{}`)", self.provider),
        }
    }
}
