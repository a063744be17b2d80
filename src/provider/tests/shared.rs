//! Where recorded exchanges are found.

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::domain::provider::{Provider, Wire};

/// One recorded exchange.
pub(super) struct Exchange {
    pub(super) id: String,
    pub(super) wire: Wire,
    pub(super) provider: String,
    pub(super) stream: bool,
    pub(super) request: Value,
    pub(super) response: Value,
    pub(super) expected: Value,
}

impl Exchange {
    fn read(path: &std::path::Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let wire: Wire = value["api"].as_str()?.parse().ok()?;
        Some(Self {
            id: value["id"].as_str().unwrap().to_owned(),
            wire,
            provider: value["provider"].as_str().unwrap().to_owned(),
            stream: value["stream"] == true,
            request: value["request"].clone(),
            response: value["response"].clone(),
            expected: value["expected"].clone(),
        })
    }

    /// The status of the response.
    pub(super) fn status(&self) -> u16 {
        u16::try_from(self.response["status"].as_u64().unwrap()).unwrap()
    }

    /// The bytes of the response's body.
    pub(super) fn body(&self) -> Vec<u8> {
        if let Some(bytes) = self.response["base64"].as_str() {
            return BASE64_STANDARD.decode(bytes).unwrap();
        }
        let text = ["sse", "text"].iter().find_map(|key| self.response[key].as_str());
        text.map_or_else(|| self.response["body"].to_string(), str::to_owned).into_bytes()
    }

    /// Whether the body is a stream of events.
    pub(super) fn is_events(&self) -> bool {
        let is_framed = ["sse", "base64"].iter().any(|key| self.response.get(key).is_some());
        let content_type = self.header("content-type").unwrap_or_default();
        self.stream && (is_framed || content_type.contains("ndjson"))
    }

    /// The provider that spoke, where it is one of ours, else one that speaks the same wire.
    pub(super) fn speaker(&self) -> Provider {
        let name = if self.provider == "google_vertex" { "vertex" } else { self.provider.as_str() };
        let same = |provider: &Provider| provider.wire() == self.wire;
        let named = name.parse().ok().filter(same);
        named.unwrap_or(match self.wire {
            Wire::OpenaiChat => Provider::Openai,
            Wire::OpenaiResponses => Provider::OpenaiResponses,
            Wire::AnthropicMessages => Provider::Anthropic,
            Wire::GeminiGenerate => Provider::Gemini,
            Wire::BedrockConverse => Provider::Bedrock,
            Wire::OllamaChat => Provider::Ollama,
        })
    }

    /// A header of the response.
    pub(super) fn header(&self, name: &str) -> Option<String> {
        self.response["headers"][name].as_str().map(str::to_owned)
    }
}

/// A path in the folder that holds what is shared between checkouts, or `None`, said plainly, when
/// there is no such folder.
#[expect(clippy::disallowed_methods, reason = "tests are told by the environment where it is")]
#[expect(clippy::print_stderr, reason = "a test that checks nothing must say so")]
pub(super) fn path(of: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared");
    let root = std::env::var("AGENTLING_SHARED").unwrap_or_else(|_| beside.to_owned());
    let path = PathBuf::from(root).join(of);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is absent", path.display());
    None
}

/// The recorded exchanges of a wire.
pub(super) fn exchanges_of(wire: Wire) -> Vec<Exchange> {
    exchanges().into_iter().filter(|exchange| exchange.wire == wire).collect()
}

/// The recorded exchanges, by id; none, said plainly, when they are absent.
pub(super) fn exchanges() -> Vec<Exchange> {
    let Some(folder) = path("data/providers") else { return Vec::new() };
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|ext| ext == "json"));
    let mut exchanges: Vec<_> = files.filter_map(|path| Exchange::read(&path)).collect();
    exchanges.sort_by(|one, other| one.id.cmp(&other.id));
    exchanges
}
