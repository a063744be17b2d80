//! The agent loop as three total functions: `decide`, `evolve`, `due`.
//!
//! State is never stored: it is the fold of the committed records, and `due` says what must be under
//! way in a state. Recovery is therefore not a second code path: load, fold, do what is due.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod effect;
pub mod input;
pub mod record;
