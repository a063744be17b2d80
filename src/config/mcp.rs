//! MCP servers that are programs of the operator's.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde::Deserialize;

use super::Setting;
use super::reader::Reader;
use crate::domain::agent::Metadata;
use crate::domain::id::{InvalidId, TenantId};
use crate::domain::mcp::{McpRules, McpServerSpec};

pub(super) const STDIO: Setting = Setting::plain(
    "AGENTLING_MCP_STDIO",
    "a JSON file with a list of MCP servers that are programs: `name`, `command`, `args`, `env`, and what \
     a registered server has; `tenants` names who may use one",
);

/// The operator's MCP servers.
#[derive(Debug, Clone, Default)]
pub struct Mcp {
    /// The programs.
    pub servers: Vec<McpProgram>,
}

/// A program that is an MCP server.
#[derive(Debug, Clone)]
pub struct McpProgram {
    /// The program.
    pub command: String,
    /// What it is called with.
    pub args: Vec<String>,
    /// Its whole environment: nothing of the server's own is handed on.
    pub env: BTreeMap<String, SecretString>,
    /// Who may use it; everyone when it is absent.
    pub tenants: Option<Vec<TenantId>>,
    /// Its name, and what holds for its tools. The URL is empty.
    pub spec: McpServerSpec,
}

/// The same as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, SecretString>,
    #[serde(default)]
    tenants: Option<Vec<String>>,
    #[serde(default)]
    connect_timeout_ms: Option<u64>,
    #[serde(default)]
    allow: Option<Vec<String>>,
    #[serde(default)]
    deny: Vec<String>,
    #[serde(default)]
    rules: McpRules,
    #[serde(default)]
    overrides: BTreeMap<String, McpRules>,
}

impl Mcp {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let Some(path) = reader.source.get(STDIO.name) else { return Some(Self::default()) };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                reader.refuse(STDIO, format!("names a file that cannot be read: {error}"));
                return None;
            }
        };
        let entries: Vec<Entry> = match serde_json::from_str(&text) {
            Ok(entries) => entries,
            Err(error) => {
                // The message of a wrong type repeats the value, which may be a secret.
                let (line, column) = (error.line(), error.column());
                let place = format!("at line {line}, column {column}");
                reader.refuse(STDIO, format!("names a file that is no list of servers, {place}"));
                return None;
            }
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        let fits = |name: &str| (1..=64).contains(&name.len()) && name.bytes().all(is_plain);
        for entry in entries.iter().filter(|entry| !fits(&entry.name)) {
            let name = &entry.name;
            reader.refuse(STDIO, format!("names a file in which {name:?} is no name of a server"));
        }
        let programs: Result<_, InvalidId> =
            entries.into_iter().map(McpProgram::try_from).collect();
        if programs.is_err() {
            reader.refuse(STDIO, "names a file in which one of `tenants` is no tenant");
        }
        Some(Self { servers: programs.ok()? })
    }
}

impl TryFrom<Entry> for McpProgram {
    type Error = InvalidId;

    fn try_from(entry: Entry) -> Result<Self, InvalidId> {
        let tenants = entry.tenants.map(|tenants| {
            tenants.iter().map(|tenant| TenantId::parse(tenant)).collect::<Result<_, _>>()
        });
        Ok(Self {
            command: entry.command,
            args: entry.args,
            env: entry.env,
            tenants: tenants.transpose()?,
            spec: McpServerSpec {
                name: entry.name,
                url: String::new(),
                headers: indexmap::IndexMap::new(),
                connect_timeout_ms: entry.connect_timeout_ms,
                allow: entry.allow,
                deny: entry.deny,
                rules: entry.rules,
                overrides: entry.overrides,
                metadata: Metadata::new(),
            },
        })
    }
}
