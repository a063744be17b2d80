//! The codecs against recorded and constructed exchanges, whole and split.

use std::io::Write as _;
use std::process::Command;

use chrono::{TimeZone as _, Utc};

use super::judge::{Reading, differences};
use super::shared::{Exchange, exchanges, exchanges_of, path};
use crate::domain::provider::Wire;
use crate::wire::{self, RetryHints, StreamDecoder};

/// Exchanges that are not read as expected yet. The list may only shrink.
const NOT_YET: &[&str] = &[];

/// The largest body that is split in two at every byte; larger ones are read byte by byte and in
/// random pieces.
const MOST_SPLIT: usize = 2 * 1024;

fn hints(exchange: &Exchange) -> RetryHints {
    RetryHints {
        retry_after_ms: exchange.header("retry-after-ms"),
        retry_after: exchange.header("retry-after"),
        should_retry: exchange.header("x-should-retry"),
        error_type: exchange.header("x-amzn-errortype"),
        now: Utc.with_ymd_and_hms(2025, 1, 1, 0, 0, 0).unwrap(),
    }
}

fn read_events<'a>(exchange: &Exchange, pieces: impl IntoIterator<Item = &'a [u8]>) -> Reading {
    let mut decoder = StreamDecoder::new(exchange.speaker());
    for piece in pieces {
        if let Err(error) = decoder.push(piece) {
            return Reading::of_broken(&decoder.partial(), error);
        }
    }
    let partial = decoder.partial();
    match decoder.finish() {
        Ok(reply) => Reading::of_reply(&reply),
        Err(error) => Reading::of_broken(&partial, error),
    }
}

fn read(exchange: &Exchange) -> Reading {
    let (body, speaker) = (exchange.body(), exchange.speaker());
    if exchange.status() >= 400 {
        let error = wire::classify(speaker, exchange.status(), &hints(exchange), &body);
        return Reading::of_error(error);
    }
    if exchange.is_events() {
        return read_events(exchange, [body.as_slice()]);
    }
    let reply = wire::decode(speaker, &body);
    reply.map_or_else(Reading::of_error, |reply| Reading::of_reply(&reply))
}

/// Deterministic pieces of 1 to 40 bytes.
fn scattered(body: &[u8], mut seed: u64) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let length = usize::try_from((seed >> 33) % 40 + 1).unwrap().min(rest.len());
        let (piece, tail) = rest.split_at(length);
        pieces.push(piece);
        rest = tail;
    }
    pieces
}

fn are_read_as_expected(wire: Wire) {
    let all = exchanges_of(wire);
    let unlike: Vec<_> = all
        .iter()
        .map(|exchange| (exchange.id.as_str(), differences(&exchange.expected, &read(exchange))))
        .filter(|(id, found)| !found.is_empty() && !NOT_YET.contains(id))
        .collect();
    assert!(unlike.is_empty(), "{} of {}: {unlike:#?}", unlike.len(), all.len());
}

fn read_the_same_however_they_are_split(wire: Wire) {
    for exchange in exchanges_of(wire).iter().filter(|exchange| exchange.is_events()) {
        let body = exchange.body();
        let whole = read(exchange);
        assert_eq!(read_events(exchange, body.chunks(1)), whole, "{}: by byte", exchange.id);
        for seed in 0..8 {
            let pieces = scattered(&body, seed);
            assert_eq!(read_events(exchange, pieces), whole, "{}: {seed}", exchange.id);
        }
        let n_splits = if body.len() <= MOST_SPLIT { body.len() } else { 0 };
        for at in 0..n_splits {
            let (head, tail) = body.split_at(at);
            assert_eq!(read_events(exchange, [head, tail]), whole, "{} at {at}", exchange.id);
        }
    }
}

fn never_end_as_a_reply_that_differs_when_cut(wire: Wire) {
    for exchange in exchanges_of(wire).iter().filter(|exchange| exchange.is_events()) {
        let body = exchange.body();
        let whole = read(exchange);
        for cut in (0..body.len()).step_by(body.len() / 100 + 1) {
            let reading = read_events(exchange, [&body[..cut]]);
            let same = reading.parts == whole.parts;
            assert!(reading.outcome != "reply" || same, "{} cut at {cut}", exchange.id);
        }
    }
}

/// The tests of each wire, so that one can be run by its name.
macro_rules! wires {
    ($($name:ident: $wire:expr;)*) => {
        $(mod $name {
            use super::Wire;

            #[test]
            fn recorded_providers_exchanges_are_read_as_expected() {
                super::are_read_as_expected($wire);
            }

            #[test]
            fn recorded_providers_streams_read_the_same_however_they_are_split() {
                super::read_the_same_however_they_are_split($wire);
            }

            #[test]
            fn recorded_providers_streams_cut_anywhere_never_end_as_a_reply_that_differs() {
                super::never_end_as_a_reply_that_differs_when_cut($wire);
            }
        })*

        #[test]
        fn every_wire_is_read() {
            let read = [$($wire),*];
            assert!(Wire::ALL.iter().all(|wire| read.contains(wire)));
        }
    };
}

wires! {
    openai_chat: Wire::OpenaiChat;
    openai_responses: Wire::OpenaiResponses;
    anthropic_messages: Wire::AnthropicMessages;
    gemini_generate: Wire::GeminiGenerate;
    bedrock_converse: Wire::BedrockConverse;
    ollama_chat: Wire::OllamaChat;
}

#[test]
fn a_listed_exchange_still_differs() {
    for exchange in exchanges().iter().filter(|exchange| NOT_YET.contains(&exchange.id.as_str())) {
        let found = differences(&exchange.expected, &read(exchange));
        assert!(!found.is_empty(), "take {} off the list", exchange.id);
    }
}

/// The judge of the shared folder, which knows nothing of ours.
#[test]
#[expect(clippy::print_stderr, reason = "a test that checks nothing must say so")]
fn recorded_providers_exchanges_satisfy_the_shared_judge() {
    let (Some(judge), Some(fixtures)) =
        (path("tools/compare_provider_readings.py"), path("data/providers"))
    else {
        return;
    };
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for exchange in exchanges() {
        writeln!(file, "{}", read(&exchange).told(&exchange.id)).unwrap();
    }
    let judged = Command::new("python3").arg(judge).arg(fixtures).arg(file.path()).output();
    let Ok(judged) = judged else {
        eprintln!("skipped: there is no python3");
        return;
    };
    let said = String::from_utf8_lossy(&judged.stdout).into_owned();
    assert!(judged.status.success() || !NOT_YET.is_empty(), "{said}");
}
