//! What any text resembles; see the target `framing`.
#![no_main]

use agentling::render::framing;
use libfuzzer_sys::fuzz_target;

#[path = "../../src/render/framing/tests/checks/mod.rs"]
#[expect(dead_code, reason = "the other checks are for the other target")]
mod checks;

fuzz_target!(|text: &str| checks::lookalikes_hold(text));
