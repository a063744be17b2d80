//! The codec against recorded and constructed exchanges, whole and split.

use chrono::{TimeZone as _, Utc};

use super::judge::{Reading, differences};
use super::shared::{Exchange, exchanges};
use crate::domain::model::Provider;
use crate::wire::{self, RetryHints, StreamDecoder};

/// Exchanges of other vendors that are not read as expected yet. The list may only shrink.
const NOT_YET: &[&str] = &[];

const OPENAI: Provider = Provider::Openai;

fn hints(exchange: &Exchange) -> RetryHints {
    RetryHints {
        retry_after_ms: exchange.header("retry-after-ms"),
        retry_after: exchange.header("retry-after"),
        should_retry: exchange.header("x-should-retry"),
        error_type: exchange.header("x-amzn-errortype"),
        now: Utc.with_ymd_and_hms(2025, 1, 1, 0, 0, 0).unwrap(),
    }
}

fn read_events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Reading {
    let mut decoder = StreamDecoder::new(OPENAI);
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
    let body = exchange.body();
    if exchange.status() >= 400 {
        let error = wire::classify(OPENAI, exchange.status(), &hints(exchange), &body);
        return Reading::of_error(error);
    }
    if exchange.is_events() {
        return read_events([body.as_slice()]);
    }
    wire::decode(OPENAI, &body).map_or_else(Reading::of_error, |reply| Reading::of_reply(&reply))
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

#[test]
fn recorded_providers_exchanges_of_openai_are_read_as_expected() {
    for exchange in exchanges().iter().filter(|exchange| exchange.provider == "openai") {
        let found = differences(&exchange.expected, &read(exchange));
        assert!(found.is_empty(), "{}: {found:?}", exchange.id);
    }
}

#[test]
fn recorded_providers_exchanges_of_all_vendors_are_read_as_expected() {
    let all = exchanges();
    let unlike: Vec<_> = all
        .iter()
        .map(|exchange| (exchange.id.as_str(), differences(&exchange.expected, &read(exchange))))
        .filter(|(_, found)| !found.is_empty())
        .collect();
    let listed: Vec<_> = unlike.iter().filter(|(id, _)| NOT_YET.contains(id)).collect();
    let unlisted: Vec<_> = unlike.iter().filter(|(id, _)| !NOT_YET.contains(id)).collect();
    assert!(unlisted.is_empty(), "{} of {}: {unlisted:#?}", unlisted.len(), all.len());
    assert!(all.is_empty() || listed.len() == NOT_YET.len(), "take what is read off the list");
}

#[test]
fn recorded_providers_streams_read_the_same_however_they_are_split() {
    for exchange in exchanges().iter().filter(|exchange| exchange.is_events()) {
        let body = exchange.body();
        let whole = read(exchange);
        assert_eq!(read_events(body.chunks(1)), whole, "{}: by byte", exchange.id);
        for seed in 0..8 {
            assert_eq!(read_events(scattered(&body, seed)), whole, "{}: {seed}", exchange.id);
        }
    }
}

#[test]
fn recorded_providers_streams_of_openai_read_the_same_split_at_every_byte() {
    let all = exchanges();
    let openai = all.iter().filter(|exchange| exchange.provider == "openai");
    for exchange in openai.filter(|exchange| exchange.is_events()) {
        let body = exchange.body();
        let whole = read(exchange);
        for at in 0..body.len() {
            let (head, tail) = body.split_at(at);
            assert_eq!(read_events([head, tail]), whole, "{} at {at}", exchange.id);
        }
    }
}

#[test]
fn recorded_providers_streams_cut_anywhere_never_end_as_a_reply_that_differs() {
    for exchange in exchanges().iter().filter(|exchange| exchange.is_events()) {
        let body = exchange.body();
        let whole = read(exchange);
        for cut in (0..body.len()).step_by(body.len() / 25 + 1) {
            let reading = read_events([&body[..cut]]);
            let same = reading.parts == whole.parts;
            assert!(reading.outcome != "reply" || same, "{} cut at {cut}", exchange.id);
        }
    }
}
