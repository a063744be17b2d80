//! What a schema may look like before it is compiled: bounded, and complete in itself.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::pattern::weight;
use super::response::is_shallow;
use super::spec::{SpecFinding, SpecProblem};
use crate::domain::json_schema::{DATA, NAMED};

/// Bytes of a schema as compact JSON.
pub(super) const MAX_BYTES: usize = 64 * 1024;
/// Levels of nesting.
pub(super) const MAX_DEPTH: usize = 32;
/// JSON values in a schema.
pub(super) const MAX_NODES: usize = 2_000;
/// JSON values when every local reference is replaced by what it names.
pub(super) const MAX_UNFOLDED: u64 = 20_000;
/// Patterns in a schema.
pub(super) const MAX_PATTERNS: usize = 50;
/// Characters of one pattern.
pub(super) const MAX_PATTERN_CHARS: usize = 512;

/// Items of an array that are to differ from each other, at most.
pub(super) const MAX_UNIQUE: u64 = 1_000;

const REFERENCES: &[&str] = &["$ref", "$dynamicRef", "$recursiveRef"];

/// Everything that keeps a schema from being compiled, with pointers from its root.
pub(super) fn flaws(schema: &Value) -> Vec<SpecFinding> {
    // Everything below walks the document, so its size is judged first.
    if let Some(text) = excess(schema) {
        return vec![SpecFinding::new(SpecProblem::SchemaTooComplex, "", text)];
    }
    let mut survey = Survey::default();
    survey.visit(schema, "", false);
    if survey.patterns > MAX_PATTERNS {
        survey.complex("", format!("a schema has at most {MAX_PATTERNS} patterns"));
    }
    if Unfolding::of(schema).weigh(schema) > MAX_UNFOLDED {
        survey.complex("", "its references repeat each other too often".to_owned());
    }
    survey.findings
}

fn excess(schema: &Value) -> Option<String> {
    if !is_shallow(schema, MAX_DEPTH) {
        return Some(format!("a schema has at most {MAX_DEPTH} levels"));
    }
    if count(schema) > MAX_NODES {
        return Some(format!("a schema has at most {MAX_NODES} values"));
    }
    if schema.to_string().len() > MAX_BYTES {
        return Some(format!("a schema has at most {MAX_BYTES} bytes"));
    }
    None
}

/// The number of values in a document, its root included.
pub(super) fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// The levels of a document; 0 for a scalar.
pub(super) fn depth(value: &Value) -> u32 {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

#[derive(Default)]
struct Survey {
    findings: Vec<SpecFinding>,
    patterns: usize,
    /// What all patterns together may have to follow at every byte of a text.
    weight: u64,
}

/// What the patterns of a schema may have to follow at every byte of a text, all together.
pub(super) fn pattern_weight(schema: &Value) -> u64 {
    let mut survey = Survey::default();
    survey.visit(schema, "", false);
    survey.weight
}

impl Survey {
    fn visit(&mut self, value: &Value, pointer: &str, keys_are_names: bool) {
        match value {
            Value::Object(members) => self.visit_members(members, pointer, keys_are_names),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.visit(item, &format!("{pointer}/{index}"), false);
                }
            }
            _ => {}
        }
    }

    fn visit_members(&mut self, members: &Map<String, Value>, pointer: &str, names: bool) {
        if !names {
            self.unique(members, pointer);
        }
        for (key, value) in members {
            let pointer = format!("{pointer}/{}", escape(key));
            if names {
                self.visit(value, &pointer, false);
            } else if !DATA.contains(&key.as_str()) {
                self.judge(key, value, &pointer);
                self.visit(value, &pointer, NAMED.contains(&key.as_str()));
            }
        }
    }

    /// Comparing every item with every other one takes a bound on their number.
    fn unique(&mut self, members: &Map<String, Value>, pointer: &str) {
        let is_asked = members.get("uniqueItems") == Some(&Value::Bool(true));
        let bound = members.get("maxItems").and_then(Value::as_u64);
        if is_asked && bound.is_none_or(|bound| bound > MAX_UNIQUE) {
            let text = format!("needs `maxItems` of at most {MAX_UNIQUE}");
            self.complex(&format!("{pointer}/uniqueItems"), text);
        }
    }

    fn judge(&mut self, key: &str, value: &Value, pointer: &str) {
        match (key, value) {
            (key, Value::String(target)) if REFERENCES.contains(&key) && !is_local(target) => {
                self.remote(pointer, "only references that begin with '#/' are followed");
            }
            ("$id", Value::String(_)) => {
                self.remote(pointer, "a schema cannot have an address of its own");
            }
            ("pattern", Value::String(pattern)) => self.pattern(pattern, pointer),
            ("patternProperties", Value::Object(members)) => {
                for pattern in members.keys() {
                    self.pattern(pattern, &format!("{pointer}/{}", escape(pattern)));
                }
            }
            _ => {}
        }
    }

    fn pattern(&mut self, pattern: &str, pointer: &str) {
        self.patterns += 1;
        self.weight = self.weight.saturating_add(weight(pattern));
        if pattern.chars().count() > MAX_PATTERN_CHARS {
            self.complex(pointer, format!("a pattern has at most {MAX_PATTERN_CHARS} characters"));
        }
    }

    fn remote(&mut self, pointer: &str, text: &str) {
        let text = text.to_owned();
        self.findings.push(SpecFinding::new(SpecProblem::RemoteRefForbidden, pointer, text));
    }

    fn complex(&mut self, pointer: &str, text: String) {
        self.findings.push(SpecFinding::new(SpecProblem::SchemaTooComplex, pointer, text));
    }
}

fn is_local(target: &str) -> bool {
    target == "#" || target.starts_with("#/")
}

/// A key as it stands in a JSON pointer.
pub(super) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// In how many places a schema that leads back to itself refers on; 0 for one that does not.
pub(super) fn recursive_references(schema: &Value) -> u32 {
    let mut unfolding = Unfolding::of(schema);
    unfolding.weigh(schema);
    if unfolding.is_recursive { references(schema) } else { 0 }
}

fn references(value: &Value) -> u32 {
    match value {
        Value::Array(items) => items.iter().map(references).sum(),
        Value::Object(members) => {
            let own = members.keys().filter(|key| REFERENCES.contains(&key.as_str())).count();
            let below: u32 = members.values().map(references).sum();
            below.saturating_add(u32::try_from(own).unwrap_or(u32::MAX))
        }
        _ => 0,
    }
}

/// Sums up what validation may have to visit. Small schemas whose definitions each name the next one
/// twice unfold into more work than any machine can do; recursion is counted once, since every round
/// of it uses up a level of the value.
struct Unfolding<'a> {
    root: &'a Value,
    known: BTreeMap<&'a str, u64>,
    open: BTreeSet<&'a str>,
    is_recursive: bool,
}

impl<'a> Unfolding<'a> {
    const fn of(root: &'a Value) -> Self {
        Self { root, known: BTreeMap::new(), open: BTreeSet::new(), is_recursive: false }
    }

    fn weigh(&mut self, value: &'a Value) -> u64 {
        match value {
            Value::Array(items) => self.sum(items.iter()),
            Value::Object(members) => {
                let own = self.sum(members.values());
                let targets = REFERENCES.iter().filter_map(|key| members.get(*key)?.as_str());
                targets.fold(own, |total, target| self.follow(target).saturating_add(total))
            }
            _ => 1,
        }
    }

    fn sum(&mut self, values: impl Iterator<Item = &'a Value>) -> u64 {
        values.fold(1, |total, value| self.weigh(value).saturating_add(total))
    }

    fn follow(&mut self, target: &'a str) -> u64 {
        if let Some(weight) = self.known.get(target) {
            return *weight;
        }
        let found = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let Some(found) = found else { return 0 };
        if !self.open.insert(target) {
            self.is_recursive = true;
            return 0;
        }
        let weight = self.weigh(found);
        self.open.remove(target);
        self.known.insert(target, weight);
        weight
    }
}
