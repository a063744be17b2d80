//! Rows of vendors that speak OpenAI Chat Completions with an accent, and of Ollama.

use super::chat::{
    ChatFacts, EffortPlace, ForcedChoice, MessageOrder, SchemaSupport, ThinkingPlace, bare,
    is_first_o1,
};
use super::profile::{CallIdRule, EmptyContent, FileKinds, OwnThinking, Profile};

/// What is assumed of a server that is not known.
const UNKNOWN: Profile = Profile::CONSERVATIVE;

/// `OpenRouter`, for the models that are not OpenAI's.
pub(super) const OPENROUTER: Profile = Profile {
    family: "openrouter",
    chat: ChatFacts {
        effort: EffortPlace::InReasoning,
        forced_choice: ForcedChoice::UnlessReasoning,
        ..UNKNOWN.chat
    },
    ..UNKNOWN
};

/// OpenAI's models through `OpenRouter`.
pub(super) const OPENROUTER_OPENAI: Profile = Profile {
    family: "openrouter_openai",
    native_system: true,
    chat: ChatFacts { think_tags: false, forced_choice: ForcedChoice::Always, ..OPENROUTER.chat },
    ..UNKNOWN
};

/// xAI.
pub(super) const XAI: Profile = Profile {
    family: "xai",
    own_thinking: OwnThinking::IsLeftOut,
    files: FileKinds { images: true, documents: false },
    chat: ChatFacts::OPENAI,
    ..UNKNOWN
};

/// Mistral.
pub(super) const MISTRAL: Profile = Profile {
    family: "mistral",
    native_system: true,
    call_ids: CallIdRule::Exactly(9),
    // Members that it does not know are refused; counts come unasked.
    stream_usage: false,
    chat: ChatFacts {
        thinking: ThinkingPlace::Content,
        order: MessageOrder::NoUserAfterResult,
        any_tool: "any",
        seed: "random_seed",
        ..ChatFacts::OPENAI
    },
    ..UNKNOWN
};

/// Groq.
pub(super) const GROQ: Profile = Profile { family: "groq", native_system: true, ..UNKNOWN };

/// Cohere's endpoint for OpenAI's protocol.
pub(super) const COHERE: Profile = Profile {
    family: "cohere",
    native_system: true,
    own_thinking: OwnThinking::IsLeftOut,
    chat: ChatFacts::OPENAI,
    ..UNKNOWN
};

/// `DeepSeek`.
pub(super) const DEEPSEEK: Profile = Profile {
    family: "deepseek",
    chat: ChatFacts {
        thinking: ThinkingPlace::BesideCalls,
        forced_choice: ForcedChoice::UnlessThinking,
        schema: SchemaSupport::AnyJson,
        ..ChatFacts::OPENAI
    },
    ..UNKNOWN
};

/// Moonshot.
pub(super) const MOONSHOT: Profile = Profile {
    family: "moonshot",
    chat: ChatFacts { effort: EffortPlace::UnlessThinkingIsSet, ..DEEPSEEK.chat },
    ..UNKNOWN
};

/// Z.ai.
pub(super) const ZAI: Profile = Profile {
    family: "zai",
    chat: ChatFacts { schema: SchemaSupport::AnyJson, ..ChatFacts::OPENAI },
    ..UNKNOWN
};

/// Gemini's endpoint for OpenAI's protocol.
pub(super) const GEMINI_OPENAI: Profile = Profile {
    family: "openai_compatible_gemini",
    empty_content: EmptyContent::Null,
    files: FileKinds { images: true, documents: false },
    chat: ChatFacts::OPENAI,
    ..UNKNOWN
};

/// Ollama's own API.
pub(super) const OLLAMA: Profile = Profile { family: "ollama", ..UNKNOWN };

/// The row with what is known of the model by its name.
pub(super) fn of_model(row: Profile, name: &str) -> Profile {
    let mut chat = row.chat.of_model(name);
    match row.family {
        "deepseek" if name == "deepseek-chat" => chat.forced_choice = ForcedChoice::Always,
        "moonshot" if !thinks(name) => chat.forced_choice = ForcedChoice::Always,
        "groq" if !follows_schemas(name) => chat.schema = SchemaSupport::AnyJson,
        "openai_compatible" => chat.order = order_of(name),
        _ => {}
    }
    let native_system = row.native_system && !is_first_o1(name);
    Profile { native_system, chat, ..row }
}

fn thinks(name: &str) -> bool {
    name.contains("thinking") || name.starts_with("kimi-k2.")
}

/// Groq holds only some models to a schema.
fn follows_schemas(name: &str) -> bool {
    let models = ["openai/gpt-oss", "moonshotai/kimi-k2", "meta-llama/llama-4"];
    models.iter().any(|model| name.starts_with(model))
}

/// The chat templates of some models refuse two messages of one role in a row.
fn order_of(name: &str) -> MessageOrder {
    let name = bare(name).to_ascii_lowercase();
    let alternates = ["gemma", "devstral"].iter().any(|model| name.contains(model));
    if alternates { MessageOrder::Alternating } else { MessageOrder::Any }
}
