//! Any bytes as an answer on this wire, whole and streamed; see `src/wire/tests/checks`.
#![no_main]

use agentling::domain::provider::Provider;
use agentling::{domain, wire};
use libfuzzer_sys::fuzz_target;

#[path = "../../src/wire/tests/checks/mod.rs"]
#[expect(dead_code, reason = "the other checks are for the other targets")]
mod checks;

fuzz_target!(|body: &[u8]| {
    checks::stream_holds(Provider::OpenaiResponses, body);
    checks::body_holds(Provider::OpenaiResponses, body);
});
