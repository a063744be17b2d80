//! Compiled schemas: what fits them, and what to say about what does not.

use std::sync::{Mutex, PoisonError};

use indexmap::IndexMap;
use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::LocationSegment;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::shape::{count, depth, escape, pattern_weight, recursive_references};
use crate::domain::step::ErrorDetail;

/// The most problems that are told at once.
pub(super) const MAX_PROBLEMS: usize = 20;
/// The most work one validation may be, as values of the document times values of the schema.
const MAX_WORK: usize = 50_000_000;
/// The most work the patterns of a schema may be, as bytes of the document times what they may follow at
/// each.
const MAX_PATTERN_WORK: u64 = 20_000_000;
/// The most rounds of recursion that the explanation of what does not fit may take.
const MAX_ROUNDS: u32 = 10_000;
/// Bytes that a compiled pattern and its cache may take.
const PATTERN_BYTES: usize = 1024 * 1024;
/// Compiled schemas that are kept.
const CACHED: usize = 1_024;
/// Characters of a value that are repeated in a problem.
const MAX_INPUT: usize = 2_000;

/// Keywords that add members from elsewhere, so that a schema's own list of them is not the whole.
const COMPOSING: &[&str] = &["$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"];

/// A schema that values are judged by.
#[derive(Debug)]
pub(super) struct Schema {
    validator: Validator,
    nodes: usize,
    /// In how many places it refers back to itself.
    recursion: u32,
    /// What its patterns may follow at every byte, all together.
    patterns: u64,
}

/// Whether members that a schema does not name are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unnamed {
    /// They are, unless the schema says otherwise.
    Refused,
    /// The schema is taken as it is.
    AsDeclared,
}

/// One thing that is wrong with a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Problem {
    /// Where, as an RFC 6901 JSON pointer.
    pub(super) pointer: String,
    /// The same for programs.
    pub(super) detail: ErrorDetail,
}

impl Schema {
    /// Compiles a schema whose shape has been found in order; never fetches anything.
    pub(super) fn compile(
        schema: &Value,
        unnamed: Unnamed,
    ) -> Result<Self, ValidationError<'static>> {
        let patterns =
            PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
        let options = jsonschema::options().offline().with_pattern_options(patterns);
        let validator = match unnamed {
            Unnamed::Refused => options.build(&closed(schema))?,
            Unnamed::AsDeclared => options.build(schema)?,
        };
        let (nodes, recursion) = (count(schema), recursive_references(schema));
        Ok(Self { validator, nodes, recursion, patterns: pattern_weight(schema) })
    }

    /// Whether its patterns would take too long.
    fn has_long_texts(&self, value: &Value) -> bool {
        let bytes = || u64::try_from(value.to_string().len()).unwrap_or(u64::MAX);
        self.patterns > 0 && self.patterns.saturating_mul(bytes()) > MAX_PATTERN_WORK
    }

    /// What is wrong with a value, at most [`MAX_PROBLEMS`] entries and one that counts the rest.
    pub(super) fn problems(&self, value: &Value) -> Vec<Problem> {
        if self.nodes.saturating_mul(count(value)) > MAX_WORK || self.has_long_texts(value) {
            return vec![Problem::whole("too_large", "is too large to be validated".to_owned())];
        }
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        // Validity is remembered where a schema meets a value again; its explanation is not.
        let rounds = self.recursion.saturating_pow(depth(value));
        if self.recursion > 1 && rounds > MAX_ROUNDS {
            let text = "does not fit, and is nested too deeply to say where".to_owned();
            return vec![Problem::whole("schema", text)];
        }
        // One entry beyond the bound is enough to say that there are more.
        let mut found: Vec<Problem> = self
            .validator
            .iter_errors(value)
            .flat_map(|error| explain(&error))
            .take(MAX_PROBLEMS + 1)
            .collect();
        if found.len() > MAX_PROBLEMS {
            found.truncate(MAX_PROBLEMS);
            found.push(Problem::whole("more", "has more problems than are listed".to_owned()));
        }
        found
    }
}

impl Problem {
    fn at(loc: &[Value], r#type: &str, msg: String) -> Self {
        let pointer = pointer(loc);
        let detail = ErrorDetail { r#type: r#type.to_owned(), loc: loc.to_vec(), msg, input: None };
        Self { pointer, detail }
    }

    /// A problem of the whole value.
    pub(super) fn whole(r#type: &str, msg: String) -> Self {
        Self::at(&[], r#type, msg)
    }

    pub(super) fn with_input(mut self, input: &Value) -> Self {
        let fits = input.to_string().chars().take(MAX_INPUT + 1).count() <= MAX_INPUT;
        self.detail.input = fits.then(|| input.clone());
        self
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pointer = if self.pointer.is_empty() { "the whole" } else { &self.pointer };
        write!(f, "{pointer} {}", self.detail.msg)
    }
}

fn pointer(loc: &[Value]) -> String {
    loc.iter().fold(String::new(), |pointer, key| pointer + "/" + &escape(&key_text(key)))
}

fn key_text(key: &Value) -> String {
    if let Value::String(text) = key { text.clone() } else { key.to_string() }
}

/// One error of the validator as problems: one a member where it speaks of several.
fn explain(error: &ValidationError<'_>) -> Vec<Problem> {
    let loc: Vec<Value> = error
        .instance_path()
        .segments()
        .map(|segment| match segment {
            LocationSegment::Property(name) => json!(name),
            LocationSegment::Index(index) => json!(index),
        })
        .collect();
    let below = |member: Value| [loc.as_slice(), &[member]].concat();
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            vec![Problem::at(&below(property.clone()), "missing", "is missing".to_owned())]
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => unexpected
            .iter()
            .map(|name| Problem::at(&below(json!(name)), "unknown", "is unknown".to_owned()))
            .collect(),
        kind => {
            let msg = error.masked_with("the value").to_string();
            let problem = Problem::at(&loc, kind.keyword(), format!("is refused: {msg}"));
            vec![problem.with_input(error.instance())]
        }
    }
}

/// The schema with unnamed members refused, where it says nothing about them.
fn closed(schema: &Value) -> Value {
    let mut closed = schema.clone();
    let Value::Object(members) = &mut closed else { return closed };
    let composed = COMPOSING.iter().any(|keyword| members.contains_key(*keyword));
    let keyword = if composed { "unevaluatedProperties" } else { "additionalProperties" };
    let told = ["additionalProperties", "unevaluatedProperties"];
    if !told.iter().any(|keyword| members.contains_key(*keyword)) {
        members.insert(keyword.to_owned(), Value::Bool(false));
    }
    // Without a list of members the validator refuses the whole instead of naming what is unknown.
    if !members.contains_key("properties") {
        members.insert("properties".to_owned(), json!({}));
    }
    closed
}

type Key = ([u8; 32], bool);
type Compiled = Result<std::sync::Arc<Schema>, String>;

/// Compiled schemas by the hash of their text; the least recently used one leaves first.
#[derive(Debug, Default)]
pub(super) struct SchemaCache {
    entries: Mutex<IndexMap<Key, Compiled>>,
}

impl SchemaCache {
    /// The compiled schema, or why it cannot be compiled.
    pub(super) fn get(&self, schema: &Value, unnamed: Unnamed) -> Compiled {
        let hash = Sha256::digest(schema.to_string().as_bytes());
        let key = (hash.into(), unnamed == Unnamed::Refused);
        if let Some(found) = self.touch(&key) {
            return found;
        }
        // Compiling takes a while, so it happens outside of the lock; two at once do no harm.
        let compiled = Schema::compile(schema, unnamed)
            .map(std::sync::Arc::new)
            .map_err(|error| error.masked().to_string());
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= CACHED {
            entries.shift_remove_index(0);
        }
        entries.insert(key, compiled.clone());
        compiled
    }

    fn touch(&self, key: &Key) -> Option<Compiled> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let found = entries.shift_remove(key)?;
        entries.insert(*key, found.clone());
        Some(found)
    }
}
