//! Who serves models: one row a provider, with the wire it speaks and where it is reached.
//!
//! A provider that speaks a known wire is a row here and one in `render::profile`; a wire of its own
//! is a codec in `wire` besides.

use crate::labels;

labels! {
    /// Who serves the model.
    Provider {
        /// The deterministic model that is written into the agent itself.
        Scripted = "scripted",
        /// OpenAI Chat Completions, and every compatible server through `base_url`.
        Openai = "openai",
        /// OpenAI Responses, and every compatible server through `base_url`.
        OpenaiResponses = "openai_responses",
        /// Anthropic Messages.
        Anthropic = "anthropic",
        /// Google's Gemini API.
        Gemini = "gemini",
        /// Gemini on Google Cloud; `base_url` names project and location.
        Vertex = "vertex",
        /// Amazon Bedrock, by its Converse API.
        Bedrock = "bedrock",
        /// `OpenRouter`.
        Openrouter = "openrouter",
        /// xAI.
        Xai = "xai",
        /// Mistral.
        Mistral = "mistral",
        /// Groq.
        Groq = "groq",
        /// `DeepSeek`.
        Deepseek = "deepseek",
        /// Ollama, by its own API.
        Ollama = "ollama",
        /// OpenAI's models at Azure; `base_url` names the resource.
        Azure = "azure",
    }
}

labels! {
    /// How requests and replies are spelt.
    Wire {
        /// OpenAI Chat Completions.
        OpenaiChat = "openai_chat",
        /// OpenAI Responses.
        OpenaiResponses = "openai_responses",
        /// Anthropic Messages.
        AnthropicMessages = "anthropic_messages",
        /// Gemini `generateContent`.
        GeminiGenerate = "gemini_generate",
        /// Bedrock Converse.
        BedrockConverse = "bedrock_converse",
        /// Ollama's own chat API.
        OllamaChat = "ollama_chat",
    }
}

/// How a key is shown to a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyScheme {
    /// `Authorization: Bearer`.
    Bearer,
    /// A header of its own.
    Header(&'static str),
    /// A bearer token where there is one, else Amazon's signature version 4 for this service.
    Aws(&'static str),
}

/// What is fixed about a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transport {
    /// The wire it speaks.
    pub wire: Wire,
    /// Where it is reached, up to and including the version segment; `None`: the model's `base_url`
    /// must say, or what is known besides.
    pub base_url: Option<&'static str>,
    /// How the key is shown.
    pub key: KeyScheme,
    /// The environment variable that holds the operator's key; empty where there is none.
    pub key_variable: &'static str,
}

impl Provider {
    /// What is fixed about it.
    pub const fn transport(self) -> Transport {
        use KeyScheme::{Aws, Bearer, Header};
        use Wire::{
            AnthropicMessages, BedrockConverse, GeminiGenerate, OllamaChat, OpenaiChat,
            OpenaiResponses,
        };
        let (wire, base_url, key, key_variable) = match self {
            Self::Scripted => (OpenaiChat, None, Bearer, ""),
            Self::Openai => {
                (OpenaiChat, Some("https://api.openai.com/v1"), Bearer, "OPENAI_API_KEY")
            }
            Self::OpenaiResponses => {
                (OpenaiResponses, Some("https://api.openai.com/v1"), Bearer, "OPENAI_API_KEY")
            }
            Self::Anthropic => (
                AnthropicMessages,
                Some("https://api.anthropic.com/v1"),
                Header("x-api-key"),
                "ANTHROPIC_API_KEY",
            ),
            Self::Gemini => (
                GeminiGenerate,
                Some("https://generativelanguage.googleapis.com/v1beta"),
                Header("x-goog-api-key"),
                "GEMINI_API_KEY",
            ),
            Self::Vertex => (GeminiGenerate, None, Bearer, "VERTEX_ACCESS_TOKEN"),
            Self::Bedrock => (BedrockConverse, None, Aws("bedrock"), "AWS_BEARER_TOKEN_BEDROCK"),
            Self::Openrouter => {
                (OpenaiChat, Some("https://openrouter.ai/api/v1"), Bearer, "OPENROUTER_API_KEY")
            }
            Self::Xai => (OpenaiChat, Some("https://api.x.ai/v1"), Bearer, "XAI_API_KEY"),
            Self::Mistral => {
                (OpenaiChat, Some("https://api.mistral.ai/v1"), Bearer, "MISTRAL_API_KEY")
            }
            Self::Groq => {
                (OpenaiChat, Some("https://api.groq.com/openai/v1"), Bearer, "GROQ_API_KEY")
            }
            Self::Deepseek => {
                (OpenaiChat, Some("https://api.deepseek.com"), Bearer, "DEEPSEEK_API_KEY")
            }
            Self::Ollama => (OllamaChat, Some("http://127.0.0.1:11434"), Bearer, "OLLAMA_API_KEY"),
            Self::Azure => (OpenaiChat, None, Header("api-key"), "AZURE_OPENAI_API_KEY"),
        };
        Transport { wire, base_url, key, key_variable }
    }

    /// The wire it speaks.
    pub const fn wire(self) -> Wire {
        self.transport().wire
    }
}

impl Wire {
    /// Members of a request that make the prompt or that its reader relies on: an agent's `extra_body`
    /// cannot name them. `tools` is none of them where the provider runs tools of its own.
    pub const fn reserved(self) -> &'static [&'static str] {
        match self {
            Self::OpenaiChat => &["model", "messages", "stream", "stream_options", "tools", "n"],
            Self::OpenaiResponses => &[
                "model",
                "input",
                "instructions",
                "stream",
                "tools",
                "store",
                "previous_response_id",
                "conversation",
                "background",
            ],
            Self::AnthropicMessages => &["model", "messages", "system", "stream", "max_tokens"],
            Self::GeminiGenerate => {
                &["model", "contents", "systemInstruction", "system_instruction"]
            }
            Self::BedrockConverse => &["messages", "system", "toolConfig"],
            Self::OllamaChat => &["model", "messages", "stream", "tools"],
        }
    }
}
