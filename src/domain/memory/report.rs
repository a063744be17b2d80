//! What is said about a document while it is read.

use std::cell::RefCell;

use super::repair::RepairCode;
use super::{Finding, MAX_FINDINGS, Notes};

/// The mark of something that was not read because of a finding that is already reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flawed;

/// What was read, or the mark that it could not be.
pub(super) type Read<T> = Result<T, Flawed>;

/// What is said about one document while it is read.
#[derive(Debug, Default)]
pub(super) struct Report {
    findings: RefCell<Vec<Finding>>,
    /// What was mended; `None` where nothing may be.
    repairs: Option<RefCell<Notes>>,
    /// What a history has no place for.
    left_out: RefCell<Notes>,
}

impl Report {
    /// That of a reader who mends what can be mended.
    pub(super) fn of_a_mender() -> Self {
        Self { repairs: Some(RefCell::default()), ..Self::default() }
    }

    /// Whether what can be mended is mended.
    pub(super) const fn is_of_a_mender(&self) -> bool {
        self.repairs.is_some()
    }

    /// Notes that something was mended. The same is a finding where nothing may be.
    pub(super) fn mend(&self, pointer: &str, code: RepairCode) -> Read<()> {
        let Some(repairs) = &self.repairs else {
            return Err(self.add(pointer, code.finding(), code.flaw()));
        };
        repairs.borrow_mut().add(|| Finding::new(pointer, code.label(), code.message()));
        Ok(())
    }

    /// Notes that a member was not read.
    pub(super) fn leave_out(&self, pointer: &str, name: &str) {
        let message = || format!("a history has no place for `{name}`");
        self.left_out.borrow_mut().add(|| Finding::new(pointer, "not_kept", message()));
    }

    /// Notes a finding, unless there are enough of them.
    pub(super) fn add(&self, pointer: &str, code: &str, message: impl Into<String>) -> Flawed {
        let mut findings = self.findings.borrow_mut();
        if findings.len() < MAX_FINDINGS {
            findings.push(Finding {
                pointer: pointer.to_owned(),
                code: code.to_owned(),
                message: message.into(),
            });
        }
        Flawed
    }

    /// Whether no further finding is noted.
    pub(super) fn is_full(&self) -> bool {
        self.findings.borrow().len() >= MAX_FINDINGS
    }

    /// The findings, in reading order.
    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.findings.into_inner()
    }

    /// What was mended, and what was left out.
    pub(super) fn take_notes(&mut self) -> (Notes, Notes) {
        let repairs = self.repairs.as_mut().map(|notes| std::mem::take(notes.get_mut()));
        (repairs.unwrap_or_default(), std::mem::take(self.left_out.get_mut()))
    }
}
