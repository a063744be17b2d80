//! Collects what is wrong with a request, so that a caller reads all of it at once.

use std::ops::RangeInclusive;

use crate::domain::agent::Metadata;
use crate::domain::memory::Finding;
use crate::error::AgentlingError;
use crate::http::limits;

/// What has been found so far. `TryFrom<NewThing>` makes one, adds to it and ends with `finish`.
#[derive(Debug, Default)]
pub struct Checks {
    findings: Vec<Finding>,
}

impl Checks {
    /// Nothing found yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a finding unless a condition holds.
    pub fn require(&mut self, holds: bool, pointer: &str, code: &str, message: &str) {
        if !holds {
            self.add(Finding::new(pointer, code, message));
        }
    }

    /// Notes a finding.
    pub fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Notes findings.
    pub fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.findings.extend(findings);
    }

    /// A text must have so many characters.
    pub fn length(&mut self, pointer: &str, text: &str, bounds: RangeInclusive<usize>) {
        let message = format!("must have {}–{} characters", bounds.start(), bounds.end());
        self.require(bounds.contains(&text.chars().count()), pointer, "length", &message);
    }

    /// A text must hold more than white space.
    pub fn not_blank(&mut self, pointer: &str, text: &str) {
        let message = "must hold text that is not blank";
        self.require(!text.trim().is_empty(), pointer, "invalid_value", message);
    }

    /// A number must lie within bounds.
    pub fn range(&mut self, pointer: &str, value: u64, bounds: RangeInclusive<u64>) {
        let message = format!("must be {}–{}", bounds.start(), bounds.end());
        self.require(bounds.contains(&value), pointer, "out_of_range", &message);
    }

    /// A caller's labels must keep within their bounds.
    pub fn metadata(&mut self, pointer: &str, metadata: &Metadata) {
        let most = limits::METADATA_PAIRS;
        let message = format!("must have at most {most} pairs");
        self.require(metadata.len() <= most, pointer, "too_many", &message);
        for (key, value) in metadata {
            let place = format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
            self.length(&place, key, 1..=limits::METADATA_KEY_CHARS);
            self.length(&place, value, 0..=limits::METADATA_VALUE_CHARS);
        }
    }

    /// An error when anything was found.
    pub fn finish(self) -> Result<(), AgentlingError> {
        if self.findings.is_empty() { Ok(()) } else { Err(AgentlingError::Invalid(self.findings)) }
    }
}
