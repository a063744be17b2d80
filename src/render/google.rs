//! Google's models: their rows, and what their names say about them.

use serde::Serialize;

use super::names::ToolNameRule;
use super::profile::{CallIdRule, FileKinds, OwnThinking, Profile};

/// A generation of Gemini, as far as requests differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GeminiGeneration {
    /// Before 2.5, or not known.
    #[default]
    First,
    /// 2.5.
    TwoAndAHalf,
    /// 3 and newer.
    Third,
}

impl GeminiGeneration {
    /// The generation of a model, by its name with or without the path before it.
    ///
    /// An alias for the latest model of a kind means one of the newest generation.
    pub fn of(model: &str) -> Self {
        let name = model.rsplit('/').next().unwrap_or_default();
        let Some(rest) = name.strip_prefix("gemini-") else { return Self::First };
        let version = rest.split('-').next().unwrap_or_default();
        match version.parse::<f32>() {
            Ok(number) if number >= 3.0 => Self::Third,
            Ok(number) if number >= 2.5 => Self::TwoAndAHalf,
            Err(_) if rest.ends_with("-latest") => Self::Third,
            Ok(_) | Err(_) => Self::First,
        }
    }

    /// Whether schemas may be JSON Schema, and not only the older subset of it.
    pub fn reads_json_schema(self) -> bool {
        self >= Self::TwoAndAHalf
    }

    /// Whether the first call of a reply must come back with a signature.
    pub fn signs_calls(self) -> bool {
        self >= Self::Third
    }

    /// Whether thinking is set by a level, and not by a number of tokens.
    pub fn has_thinking_levels(self) -> bool {
        self >= Self::Third
    }

    /// Whether an answer can be bound to a schema while tools are offered.
    pub fn binds_answers_beside_tools(self) -> bool {
        self >= Self::Third
    }
}

/// Google's models before 2.5, and those whose names do not tell.
pub(super) const GEMINI: Profile = Profile {
    family: "gemini",
    call_ids: CallIdRule::AtMost(128),
    tool_names: ToolNameRule::Identifier,
    own_thinking: OwnThinking::GoesBack,
    files: FileKinds { images: true, documents: true },
    ..Profile::CONSERVATIVE
};

/// Gemini 2.5.
pub(super) const GEMINI_2_5: Profile =
    Profile { family: "gemini_2_5", gemini: GeminiGeneration::TwoAndAHalf, ..GEMINI };

/// Gemini 3 and newer.
pub(super) const GEMINI_3: Profile =
    Profile { family: "gemini_3", gemini: GeminiGeneration::Third, ..GEMINI };

/// The row of a model.
pub(super) fn row(model: &str) -> Profile {
    match GeminiGeneration::of(model) {
        GeminiGeneration::First => GEMINI,
        GeminiGeneration::TwoAndAHalf => GEMINI_2_5,
        GeminiGeneration::Third => GEMINI_3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generation_is_read_off_the_name() {
        for (name, generation) in [
            ("gemini-3-flash-preview", GeminiGeneration::Third),
            ("models/gemini-3.1-pro", GeminiGeneration::Third),
            ("gemini-10-pro", GeminiGeneration::Third),
            ("gemini-flash-latest", GeminiGeneration::Third),
            ("gemini-2.5-flash-lite", GeminiGeneration::TwoAndAHalf),
            ("gemini-2.0-flash-exp", GeminiGeneration::First),
            ("gemini-1.5-flash-latest", GeminiGeneration::First),
            ("gemini-pro", GeminiGeneration::First),
            ("gemma-3-27b-it", GeminiGeneration::First),
            ("tunedModels/mine", GeminiGeneration::First),
            ("", GeminiGeneration::First),
        ] {
            assert_eq!(GeminiGeneration::of(name), generation, "{name}");
        }
    }
}
