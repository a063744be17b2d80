//! What is known about a setting apart from its value, and how that is documented.

use std::fmt::Write;

use super::SETTINGS;

/// The public face of one setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The environment variable.
    pub name: &'static str,
    /// The text that is read when the variable is absent or empty.
    pub default: Option<&'static str>,
    /// What it does, in one sentence without a full stop.
    pub meaning: &'static str,
    /// Whether its value must not be shown.
    pub secret: bool,
}

impl Setting {
    pub(super) const fn plain(name: &'static str, meaning: &'static str) -> Self {
        Self { name, default: None, meaning, secret: false }
    }

    pub(super) const fn secret(name: &'static str, meaning: &'static str) -> Self {
        Self { name, default: None, meaning, secret: true }
    }

    pub(super) const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }
}

/// The settings as a Markdown table, for the README.
pub fn settings_markdown() -> String {
    let mut table = String::from("| setting | default | meaning |\n|---|---|---|\n");
    for Setting { name, default, meaning, secret } in SETTINGS.iter() {
        let default = default.map_or_else(|| "–".to_owned(), |text| format!("`{text}`"));
        let note = if *secret { " (secret)" } else { "" };
        // Writing to a String cannot fail.
        writeln!(table, "| `{name}` | {default} | {meaning}{note} |").unwrap_or_default();
    }
    table
}

/// The settings as plain text, for `agentling --help`.
pub fn settings_help() -> String {
    let mut text =
        String::from("Settings (environment variables; an empty value counts as absent):\n");
    for Setting { name, default, meaning, .. } in SETTINGS.iter() {
        let default = default.map_or_else(String::new, |text| format!(" [default: {text}]"));
        writeln!(text, "  {name}\n          {meaning}{default}").unwrap_or_default();
    }
    text
}
