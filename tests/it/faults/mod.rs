//! Faults by the numbers they are listed under: each is injected, and then every invariant is checked.

mod waits;
