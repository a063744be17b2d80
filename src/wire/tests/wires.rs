//! The wires that have a codec, each with models behind it.

use serde_json::Value;

use crate::domain::model::{ModelSettings, ModelSpec, ProfileOverrides, Provider};

/// Where the system speaks in the middle of a conversation, a model's name, and its `base_url`.
type Place = (&'static str, &'static str, Option<&'static str>);

/// A wire as its requests are looked at.
#[derive(Debug)]
pub(super) struct Spoken {
    /// Who speaks it.
    pub(super) provider: Provider,
    /// Models that have an entry of their own for the system, and models that have none.
    pub(super) places: &'static [Place],
    /// The members that hold what is said.
    pub(super) texts: &'static [&'static str],
    /// Whether a request begins with every shorter one. Else it begins with those that the model's next
    /// turn answers.
    pub(super) begins_with_all: bool,
}

/// One of each wire, and another where what it has to hold differs by the model.
pub(super) const WIRES: &[Spoken] = &[
    Spoken {
        provider: Provider::Openai,
        places: &[
            ("native", "m", None),
            ("fallback", "m", Some("http://127.0.0.1:8000/v1")),
            ("alternating", "gemma", Some("http://127.0.0.1:8000/v1")),
        ],
        texts: &["content", "text"],
        begins_with_all: true,
    },
    Spoken {
        provider: Provider::OpenaiResponses,
        places: &[("native", "m", None), ("fallback", "m", Some("http://127.0.0.1:8000/v1"))],
        texts: &["content", "text", "output"],
        begins_with_all: true,
    },
    // Nothing but the model's turn may follow an entry of the system or the model's own last turn.
    Spoken {
        provider: Provider::Anthropic,
        places: &[("native", "claude-opus-5", None), ("fallback", "claude-sonnet-4-5", None)],
        texts: &["text"],
        begins_with_all: false,
    },
    Spoken {
        provider: Provider::Gemini,
        places: &[("fallback", "gemini-3-flash", None)],
        texts: &["text", "output", "error"],
        begins_with_all: true,
    },
    Spoken {
        provider: Provider::Bedrock,
        places: &[
            ("fallback", "us.anthropic.claude-sonnet-4-6", None),
            ("fallback_apart", "us.meta.llama3-3-70b-instruct-v1:0", None),
        ],
        texts: &["text"],
        begins_with_all: true,
    },
    Spoken {
        provider: Provider::Ollama,
        places: &[("fallback", "m", None)],
        texts: &["content"],
        begins_with_all: true,
    },
];

impl Spoken {
    /// Its name.
    pub(super) const fn wire(&self) -> &'static str {
        self.provider.wire().label()
    }

    /// Its models, and where the system speaks to each.
    pub(super) fn models(&self) -> impl Iterator<Item = (&'static str, ModelSpec)> {
        let model = |&(place, name, base_url): &Place| {
            let model = ModelSpec {
                provider: self.provider,
                name: name.to_owned(),
                base_url: base_url.map(str::to_owned),
                api_key: None,
                profile: ProfileOverrides::default(),
                settings: ModelSettings::default(),
                script: Vec::new(),
                fallbacks: Vec::new(),
                price: None,
            };
            (place, model)
        };
        self.places.iter().map(model)
    }

    /// The texts that a request says, as a reader of its JSON finds them.
    pub(super) fn said(&self, body: &str) -> Vec<String> {
        let mut said = Vec::new();
        self.gather(&serde_json::from_str(body).unwrap(), &mut said);
        said
    }

    fn gather(&self, value: &Value, said: &mut Vec<String>) {
        for item in value.as_array().into_iter().flatten() {
            self.gather(item, said);
        }
        for (name, member) in value.as_object().into_iter().flatten() {
            match member.as_str() {
                Some(text) if self.texts.contains(&name.as_str()) => said.push(text.to_owned()),
                _ => self.gather(member, said),
            }
        }
    }
}
