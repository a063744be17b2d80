//! What can be wrong with a setting.

/// One mistake in the settings.
///
/// The value of a secret setting is never part of the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A variable carries our prefix but is no setting: most likely a typo.
    #[error("{name} is not a setting; `agentling --help` lists them all")]
    Unknown {
        /// The variable.
        name: String,
    },
    /// The value is not text.
    #[error("{name} is not valid UTF-8")]
    NotText {
        /// The setting.
        name: &'static str,
    },
    /// The value is not acceptable.
    #[error("{name} {problem}")]
    Invalid {
        /// The setting.
        name: &'static str,
        /// What is wrong, as the rest of a sentence that begins with the name.
        problem: String,
    },
}
