//! Any bytes as an event stream; see `src/wire/tests/checks`.
#![no_main]

use agentling::{domain, wire};
use libfuzzer_sys::fuzz_target;

#[path = "../../src/wire/tests/checks/mod.rs"]
#[expect(dead_code, reason = "the other checks are for the other targets")]
mod checks;

fuzz_target!(|body: &[u8]| checks::frames_hold(body));
