//! History and profile → provider-neutral prompt. Pure: no clock, no IO, no mutation of history.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod profile;
pub mod prompt;
