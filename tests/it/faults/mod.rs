//! The fault cases by their numbers; each ends with the invariants.

mod keeping;
