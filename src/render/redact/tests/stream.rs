//! Texts that arrive in pieces.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use super::super::StreamRedactor;
use super::properties::value;
use super::{Redactor, redactor, values};
use crate::domain::redaction::RedactionChannel::{Api, Log};

/// What comes out of each piece, and at the end.
fn streamed(redactor: &Arc<Redactor>, pieces: &[&str]) -> Vec<String> {
    let mut stream = StreamRedactor::new(Arc::clone(redactor), Api);
    let mut out: Vec<String> = pieces.iter().map(|piece| stream.push(piece)).collect();
    out.push(stream.finish());
    out
}

/// A text cut at some places.
fn cut<'t>(text: &'t str, places: &[Index]) -> Vec<&'t str> {
    let mut ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    ends.push(text.len());
    let mut cuts: Vec<usize> = places.iter().map(|place| *place.get(&ends)).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| text.get(pair[0]..pair[1]).unwrap()).collect()
}

#[test]
fn only_what_may_be_the_beginning_of_a_value_is_held_back() {
    let redactor = Arc::new(values(&["hunter22"]));
    let shown = redactor.text(Api, "hunter22").into_owned();
    assert_eq!(
        streamed(&redactor, &["to ", "a hunt", "er is", " hun", "ter", "22 ", "%68unter2"]),
        ["to ", "a ", "hunter is", " ", "", &format!("{shown} "), "", "%68unter2"]
    );
}

#[test]
fn a_stream_of_another_channel_passes() {
    let list = json!([{ "kind": "value", "name": "v", "value": "hunter22", "channels": ["log"] }]);
    let redactor = Arc::new(redactor(list));
    assert_eq!(streamed(&redactor, &["hunt", "er22"]).concat(), "hunter22");
    assert_ne!(redactor.text(Log, "hunter22"), "hunter22");
}

#[test]
fn a_pattern_is_found_over_pieces_while_it_is_short() {
    let list = json!([{ "kind": "pattern", "name": "card", "pattern": "[0-9]{4}( [0-9]{4}){3}" }]);
    let redactor = Arc::new(redactor(list));
    let text = format!("{}1234 5678 1234 5678{}", "a ".repeat(300), " b".repeat(300));
    let whole = redactor.text(Api, &text).into_owned();
    let pieces: Vec<String> = text.chars().map(String::from).collect();
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    let out = streamed(&redactor, &pieces);
    assert_eq!(out.concat(), whole);
    assert!(!out[pieces.len() - 1].is_empty(), "no more than the bound is held back");
}

#[test]
fn a_match_that_grows_without_end_is_let_go_in_parts() {
    let list = json!([{ "kind": "pattern", "name": "long", "pattern": "x+" }]);
    let redactor = Arc::new(redactor(list));
    let many = "x".repeat(1000);
    let pieces = vec![many.as_str(); 20];
    let out = streamed(&redactor, &pieces).concat();
    assert!(!out.contains('x') && out.contains("[redacted:long:"), "{out}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_pieces_are_together_the_redacted_text(
        a in value(), b in value(), c in "[ab]{4,5}", fill in vec("[ab\\\\%\\[ ]{0,5}|\\[redacted:a:[0-9]{7,9}\\]?", 6),
        order in vec(0usize..6, 0..8), places in vec(any::<Index>(), 0..12),
    ) {
        let redactor = Arc::new(values(&[&a, &b, &c]));
        let pool = [a.clone(), b.clone(), c, format!("{a}{b}"), a.replace('a', "%61"), b.chars().skip(1).collect()];
        let text: String =
            order.iter().zip(fill.iter().cycle()).map(|(n, fill)| [fill, pool[*n].as_str()].concat()).collect();
        let whole = redactor.text(Api, &text).into_owned();
        prop_assert_eq!(streamed(&redactor, &cut(&text, &places)).concat(), whole);
    }
}
