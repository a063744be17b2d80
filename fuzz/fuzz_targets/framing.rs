//! Any text in any frame. `make fuzz` runs the targets of this folder for a minute each.
//!
//! What must hold is in `src/render/framing/tests/checks`, where generated texts are held to the same.
//! `seeds/` are texts that we wrote, and those that a fuzzer found once they are mended; the tests replay
//! them. What a fuzzer collects goes to `corpus/` and `artifacts/` and is not kept.
#![no_main]

use agentling::render::framing;
use libfuzzer_sys::fuzz_target;

#[path = "../../src/render/framing/tests/checks/mod.rs"]
mod checks;

fuzz_target!(|text: &str| {
    checks::only_brackets_change(text);
    checks::escaping_is_idempotent(text);
    // The text is its own attribute value: what matters of one is in the other.
    for tag in framing::FramingTag::ALL {
        checks::frame_holds(*tag, text, text);
    }
});
