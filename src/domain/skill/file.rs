//! `SKILL.md`: front matter between two lines that are exactly `---`, and instructions after it.
//!
//! The front matter is YAML of one small, flat kind: it is bounded before it is read, has no anchors and
//! no aliases, so that nothing in it unfolds, and every key is known and stands once. Reading is linear.

use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::options::MergeKeyPolicy;

use super::SkillSpec;
use crate::domain::agent::Metadata;
use crate::domain::memory::Finding;
use crate::domain::tool::ToolSpec;

/// Bytes of a front matter.
pub const MAX_FRONT_MATTER: usize = 16 * 1024;

/// Levels of nesting of a front matter. A schema has 32 of them, and stands in a tool in a list.
const MAX_DEPTH: usize = 40;

/// Values of a front matter, keys included.
const MAX_NODES: usize = 8_000;

const DELIMITER: &str = "---";

/// A `SKILL.md` that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the skill does not load: {}", .findings.first().map_or("", |f| f.message.as_str()))]
pub struct SkillLoadError {
    /// What is wrong.
    pub findings: Vec<Finding>,
}

impl SkillLoadError {
    fn one(pointer: impl Into<String>, code: &str, message: impl Into<String>) -> Self {
        Self { findings: vec![Finding::new(pointer, code, message)] }
    }
}

/// What a `SKILL.md` says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SkillFile {
    front: FrontMatter,
    instructions: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct FrontMatter {
    name: Option<String>,
    description: Option<String>,
    #[serde(default)]
    tools: Vec<ToolSpec>,
    #[serde(default)]
    metadata: Metadata,
}

impl SkillFile {
    /// Reads a file. One that does not begin with a line that is exactly `---` has no front matter.
    ///
    /// A byte order mark ahead of the first line is no part of it, nor is the carriage return of a line
    /// that ends in two characters.
    ///
    /// # Errors
    /// When the front matter does not end, is no mapping, or says what cannot be.
    pub fn read(text: &str) -> Result<Self, SkillLoadError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (front, body) = match split(text)? {
            Some((yaml, body)) => (front_matter(yaml)?, body),
            None => (FrontMatter::default(), text),
        };
        let instructions = body.trim_start_matches(['\r', '\n']).trim_end().to_owned();
        Ok(Self { front, instructions })
    }

    /// The skill that it describes; a name or a description that it does not give is taken from where
    /// else it is known.
    ///
    /// # Errors
    /// When one of them is known from nowhere.
    pub fn spec(
        self,
        name: Option<String>,
        description: Option<String>,
    ) -> Result<SkillSpec, SkillLoadError> {
        let Self { front: FrontMatter { name: own, description: told, tools, metadata }, .. } =
            self;
        let missing = |what: &str| {
            let message = format!("the front matter has no `{what}`, nor has the query");
            SkillLoadError::one(format!("/{what}"), "missing_field", message)
        };
        Ok(SkillSpec {
            name: own.or(name).ok_or_else(|| missing("name"))?,
            description: told.or(description).ok_or_else(|| missing("description"))?,
            instructions: self.instructions,
            tools,
            metadata,
        })
    }
}

/// The front matter and what follows it; `None` for a file without one.
fn split(text: &str) -> Result<Option<(&str, &str)>, SkillLoadError> {
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| is_delimiter(line)) else { return Ok(None) };
    let start = first.len();
    let mut end = start;
    for line in lines {
        if is_delimiter(line) {
            let after = text.get(end + line.len()..).unwrap_or_default();
            let yaml = text.get(start..end).unwrap_or_default();
            return Ok(Some((yaml, after)));
        }
        end += line.len();
        if end - start > MAX_FRONT_MATTER {
            let message = format!(
                "the front matter has more than {MAX_FRONT_MATTER} bytes, or no line `---` ends it"
            );
            return Err(SkillLoadError::one("", "too_long", message));
        }
    }
    let message = "the front matter does not end: it takes a second line that is exactly `---`";
    Err(SkillLoadError::one("", "unterminated", message))
}

fn is_delimiter(line: &str) -> bool {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line) == DELIMITER
}

fn front_matter(yaml: &str) -> Result<FrontMatter, SkillLoadError> {
    let value: Value =
        serde_saphyr::from_str_with_options(yaml, options()).map_err(|error| unreadable(&error))?;
    if !value.is_object() {
        let message = "the front matter is not a mapping";
        return Err(SkillLoadError::one("", "not_a_mapping", message));
    }
    if let Some(pointer) = unstorable(&value, "") {
        let message = "U+0000 cannot be stored";
        return Err(SkillLoadError::one(pointer, "text_not_storable", message));
    }
    serde_path_to_error::deserialize(value).map_err(|error| {
        let pointer = pointer_to(error.path());
        SkillLoadError::one(pointer, "invalid_value", error.inner().to_string())
    })
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_anchors: 0,
            max_aliases: 0,
            max_merge_keys: 0,
            max_documents: 1,
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
        },
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// What keeps YAML from being read, with its line in the file, where the first line is the delimiter.
fn unreadable(error: &serde_saphyr::Error) -> SkillLoadError {
    let line = error.location().map(|place| place.line() + 1);
    let text = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
    let words = text.lines().next().unwrap_or_default();
    let message = match line {
        Some(line) => format!("line {line} of the file: {words}"),
        None => words.to_owned(),
    };
    SkillLoadError::one("", "invalid_yaml", message)
}

fn pointer_to(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut pointer = String::new();
    for segment in path {
        let key = match segment {
            Segment::Seq { index } => index.to_string(),
            Segment::Map { key } => key.replace('~', "~0").replace('/', "~1"),
            // A variant is no level of the document, and nothing is known of what stands beyond it.
            Segment::Enum { .. } | Segment::Unknown => continue,
        };
        pointer.push('/');
        pointer.push_str(&key);
    }
    pointer
}

/// Where a text stands that cannot be stored.
fn unstorable(value: &Value, at: &str) -> Option<String> {
    match value {
        Value::String(text) => text.contains('\0').then(|| at.to_owned()),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| unstorable(item, &format!("{at}/{index}"))),
        Value::Object(members) => members.iter().find_map(|(key, member)| {
            let is_in_key = key.contains('\0').then(|| at.to_owned());
            is_in_key.or_else(|| unstorable(member, &format!("{at}/{key}")))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}
