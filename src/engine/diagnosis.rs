//! What has to be repaired in a history for a reader.

use crate::domain::diagnosis::Diagnosis;
use crate::domain::step::StepContent;
use crate::render::repair::{self, Reader};

/// What is repaired in a history, whose first step has this `seq`, for the reader with a row of the
/// profiles; by default the one of whom least is known. `None` when there is no such row.
pub fn diagnose(steps: &[StepContent], first_seq: i64, profile: Option<&str>) -> Option<Diagnosis> {
    let reader = Reader::of(profile.unwrap_or(Reader::CONSERVATIVE))?;
    Some(repair::diagnose(steps, first_seq, reader))
}
