//! What is redacted for everyone: the operator's rules, and the secrets of the server itself.

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use url::Url;

use super::Setting;
use super::reader::Reader;
use crate::domain::redaction::{RedactionRule, faults};

pub(super) const FILE: Setting = Setting::plain(
    "AGENTLING_REDACTION_FILE",
    "a JSON file with a list of redaction rules for all agents; a `value` rule may name an \
     environment variable as `value_env` in place of `value`",
);

/// A shorter credential is a dummy, as local model servers ask for, and turns up in ordinary text.
const SECRET_LEN_MIN: usize = 16;

/// What is redacted for everyone.
#[derive(Debug, Clone, Default)]
pub struct Redaction {
    /// The operator's rules.
    pub rules: Vec<RedactionRule>,
    /// Credentials of the server, which must not get out on any way.
    pub credentials: Vec<SecretString>,
}

impl Redaction {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let Some(path) = reader.source.get(FILE.name) else { return Some(Self::default()) };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                reader.refuse(FILE, format!("names a file that cannot be read: {error}"));
                return None;
            }
        };
        let list: Vec<Value> = match serde_json::from_str(&text) {
            Ok(list) => list,
            Err(error) => {
                // The message of a wrong type repeats the value, which may be a secret.
                let (line, column) = (error.line(), error.column());
                let place = format!("at line {line}, column {column}");
                reader.refuse(FILE, format!("names a file that is no JSON list, {place}"));
                return None;
            }
        };
        let rules = list.into_iter().enumerate().map(|(n, rule)| read_rule(reader, n, rule));
        // Every rule is read, so that all that is wrong is told.
        let rules: Vec<Option<RedactionRule>> = rules.collect();
        let rules: Vec<RedactionRule> = rules.into_iter().collect::<Option<_>>()?;
        for fault in faults(&rules) {
            reader
                .refuse(FILE, format!("names a file in which {} {}", fault.pointer, fault.message));
        }
        Some(Self { credentials: Vec::new(), rules })
    }

    /// The same with credentials of the server.
    pub(super) fn and<'s>(
        mut self,
        credentials: impl IntoIterator<Item = &'s SecretString>,
        databases: impl IntoIterator<Item = &'s SecretString>,
    ) -> Self {
        let long = |secret: &&SecretString| secret.expose_secret().len() >= SECRET_LEN_MIN;
        self.credentials.extend(credentials.into_iter().filter(long).cloned());
        let urls = databases.into_iter().filter_map(|url| Url::parse(url.expose_secret()).ok());
        let passwords = urls.filter_map(|url| url.password().map(SecretString::from));
        self.credentials.extend(passwords.filter(|password| long(&password)));
        self
    }
}

/// A rule of the file, its value taken from the environment where it says so.
fn read_rule(reader: &mut Reader<'_>, n: usize, mut rule: Value) -> Option<RedactionRule> {
    let named = rule.as_object_mut().and_then(|rule| rule.remove("value_env"));
    if let Some(named) = named {
        let name = named.as_str().unwrap_or_default();
        let value = reader.source.get(name).and_then(|value| value.to_str());
        let (Some(value), None) = (value, rule.get("value")) else {
            let message = "must name a variable that is set, and stand in place of `value`";
            reader.refuse(FILE, format!("names a file in which /{n}/value_env {message}"));
            return None;
        };
        rule.as_object_mut()?.insert("value".to_owned(), value.into());
    }
    let kind = rule.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    match serde_json::from_value(rule) {
        Ok(rule) => Some(rule),
        Err(_) if kind == "value" => {
            let message =
                "is no rule: a `value` rule has `name`, `value` or `value_env`, and `channels`";
            reader.refuse(FILE, format!("names a file in which /{n} {message}"));
            None
        }
        Err(error) => {
            reader.refuse(FILE, format!("names a file in which /{n} is no rule: {error}"));
            None
        }
    }
}
