//! The seeds of the fuzz targets, replayed. An input that a fuzzer found goes there once it is mended.

use std::path::Path;

use super::{checks, framing};

/// The texts of a target.
fn seeds(target: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let entries = std::fs::read_dir(folder).unwrap();
    let texts: Vec<String> =
        entries.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    assert!(!texts.is_empty(), "{target}");
    texts
}

#[test]
fn the_seeds_of_framing_hold() {
    for text in seeds("framing") {
        checks::only_brackets_change(&text);
        checks::escaping_is_idempotent(&text);
        for tag in framing::FramingTag::ALL {
            checks::frame_holds(*tag, &text, &text);
        }
    }
}

#[test]
fn the_seeds_of_lookalikes_hold() {
    for text in seeds("lookalike") {
        checks::lookalikes_hold(&text);
    }
}
