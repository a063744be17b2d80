//! Streamed replies.

use serde_json::{Value, json};

use super::BedrockConverse;
use crate::domain::event::DeltaKind;
use crate::domain::message::Reply;
use crate::domain::model::{FinishReason, ModelErrorKind, Provider};
use crate::wire::eventstream::tests::{event, exception, frame};
use crate::wire::{Codec as _, DeltaPiece, WireError};

/// A stream of events, each with its name and payload.
fn stream(events: &[(&str, Value)]) -> Vec<u8> {
    events.iter().flat_map(|(name, payload)| event(name, &payload.to_string())).collect()
}

fn delta(index: u64, delta: &Value) -> (&'static str, Value) {
    ("contentBlockDelta", json!({"contentBlockIndex": index, "delta": delta, "p": "abcd"}))
}

fn start(index: u64, start: &Value) -> (&'static str, Value) {
    ("contentBlockStart", json!({"contentBlockIndex": index, "start": start}))
}

fn stop(reason: &str) -> (&'static str, Value) {
    ("messageStop", json!({"stopReason": reason}))
}

fn metadata() -> (&'static str, Value) {
    ("metadata", json!({"usage": {"inputTokens": 1, "outputTokens": 2}}))
}

type Read = (Vec<DeltaPiece>, Reply, Result<Reply, WireError>);

/// The pieces, the reply as far as it came, and how it ended.
fn read<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let mut decoder = BedrockConverse.stream(Provider::Bedrock);
    let mut pieces = Vec::new();
    for chunk in chunks {
        match decoder.push(chunk) {
            Ok(more) => pieces.extend(more),
            Err(error) => return (pieces, decoder.partial(), Err(error)),
        }
    }
    (pieces, decoder.partial(), decoder.finish())
}

fn parts(reply: &Reply) -> Value {
    serde_json::to_value(&reply.parts).unwrap()
}

fn everything() -> Vec<u8> {
    let citation = json!({"citation": {"location": {"web": {"url": "u"}}}});
    stream(&[
        ("messageStart", json!({"role": "assistant"})),
        delta(0, &json!({"reasoningContent": {"text": "h"}})),
        delta(0, &json!({"reasoningContent": {"text": "m"}})),
        delta(0, &json!({"reasoningContent": {"signature": "sig"}})),
        delta(1, &json!({"reasoningContent": {"redactedContent": "YQ=="}})),
        delta(1, &json!({"reasoningContent": {"redactedContent": "Yg=="}})),
        start(
            2,
            &json!({"toolUse":
            {"toolUseId": "s", "name": "n", "type": "server_tool_use"}}),
        ),
        delta(2, &json!({"toolUse": {"input": "{\"q\":"}})),
        delta(2, &json!({"toolUse": {"input": "1}"}})),
        start(3, &json!({"toolResult": {"toolUseId": "s", "status": "success"}})),
        delta(3, &json!({"toolResult": [{"text": "x"}]})),
        delta(3, &json!({"toolResult": [{"json": {}}]})),
        delta(4, &json!({"text": "a"})),
        delta(4, &json!({"text": "b"})),
        delta(4, &citation),
        delta(5, &citation),
        ("contentBlockStop", json!({"contentBlockIndex": 5})),
        start(6, &json!({"toolUse": {"toolUseId": "1", "name": "f"}})),
        start(7, &json!({"toolUse": {"toolUseId": "1", "name": "g", "type": "tool_use"}})),
        delta(7, &json!({"toolUse": {"input": "{\"y\":"}})),
        delta(6, &json!({"toolUse": {"input": ""}})),
        delta(7, &json!({"toolUse": {"input": "2 }"}})),
        ("future", json!({"x": 1})),
        start(8, &json!({"image": {"format": "png"}})),
        delta(8, &json!({"image": {"source": {"bytes": "aa"}}})),
        delta(8, &json!({"image": {"source": {"bytes": "bb"}}})),
        stop("tool_use"),
        metadata(),
    ])
}

#[test]
fn blocks_come_in_pieces_by_their_index() {
    let (pieces, partial, reply) = read([everything().as_slice()]);
    let citations = json!([{"location": {"web": {"url": "u"}}}]);
    let issuer = "bedrock";
    let unknown = |raw: Value| json!({"part_kind": "unknown", "issuer": issuer, "raw": raw});
    let expected = json!([
        {"part_kind": "thinking", "text": "hm", "signature": "sig", "issuer": issuer},
        {"part_kind": "redacted_thinking", "data": "YWI=", "issuer": issuer},
        unknown(json!({"toolUse": {"toolUseId": "s", "name": "n", "type": "server_tool_use",
            "input": {"q": 1}}})),
        unknown(json!({"toolResult": {"toolUseId": "s", "status": "success",
            "content": [{"text": "x"}, {"json": {}}]}})),
        {"part_kind": "text", "text": "ab", "echo": {"citations": citations}},
        unknown(json!({"citationsContent": {"citations": citations}})),
        {"part_kind": "tool_call", "tool_call_id": "call_1", "provider_call_id": "1", "name": "f",
            "arguments": "{}"},
        {"part_kind": "tool_call", "tool_call_id": "call_2", "name": "g",
            "arguments": "{\"y\":2 }"},
        unknown(json!({"image": {"format": "png", "source": {"bytes": "aabb"}}})),
    ]);
    let reply = reply.unwrap();
    assert_eq!(parts(&reply), expected);
    assert_eq!(parts(&partial), expected);
    assert_eq!(reply.finish_reason, Some(FinishReason::ToolCalls));
    assert_eq!(reply.usage.unwrap().output, 2);
    let of_kind = |kind: DeltaKind| -> String {
        let pieces = pieces.iter().filter(|piece| piece.kind == kind);
        pieces.map(|piece| piece.text.as_str()).collect()
    };
    let told = [DeltaKind::Thinking, DeltaKind::Text, DeltaKind::ToolCall].map(of_kind);
    assert_eq!(told, ["hm", "ab", "{\"y\":2 }"]);
}

#[test]
fn a_stream_reads_the_same_split_at_every_byte() {
    let bytes = everything();
    let whole = read([bytes.as_slice()]);
    for at in 0..bytes.len() {
        let (head, tail) = bytes.split_at(at);
        assert_eq!(read([head, tail]), whole, "{at}");
    }
    assert_eq!(read(bytes.chunks(1)), whole);
}

#[test]
fn a_reply_is_whole_once_its_stop_has_come() {
    let before = stream(&[delta(0, &json!({"text": "a"}))]);
    let (_, partial, reply) = read([before.as_slice()]);
    let error = reply.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ModelErrorKind::TruncatedStream, true));
    assert_eq!(partial.text().as_deref(), Some("a"));
    let stopped = [before, stream(&[stop("end_turn")])].concat();
    let reply = read([stopped.as_slice()]).2.unwrap();
    assert_eq!((reply.finish_reason, reply.usage), (Some(FinishReason::Stop), None));
    let cut = [&stopped, &stream(&[metadata()])[..20]].concat();
    assert_eq!(read([cut.as_slice()]).2.unwrap(), reply);
    let done = [&*stopped, &stream(&[metadata()]), b"rubbish after the end"].concat();
    assert!(read([done.as_slice()]).2.unwrap().usage.is_some());
    assert_eq!(read([b"".as_slice()]).2.unwrap_err().kind, ModelErrorKind::TruncatedStream);
}

#[test]
fn an_exception_is_the_error_that_its_name_stands_for() {
    let before = stream(&[delta(0, &json!({"text": "a"}))]);
    for (name, kind) in [
        ("throttlingException", ModelErrorKind::RateLimit),
        ("serviceUnavailableException", ModelErrorKind::Unavailable),
        ("internalServerException", ModelErrorKind::Server),
        ("modelStreamErrorException", ModelErrorKind::Server),
        ("modelTimeoutException", ModelErrorKind::Timeout),
        ("validationException", ModelErrorKind::BadRequest),
        ("accessDeniedException", ModelErrorKind::Permission),
        ("futureException", ModelErrorKind::Server),
    ] {
        let bytes = [before.clone(), exception(name, r#"{"message":"no","p":"ab"}"#)].concat();
        let (_, partial, reply) = read([bytes.as_slice()]);
        let error = reply.unwrap_err();
        assert_eq!((error.kind, error.code.as_deref()), (kind, Some(name)));
        assert_eq!((error.retryable, &*error.detail), (kind.is_retryable(), "no"), "{name}");
        assert_eq!(partial.text().as_deref(), Some("a"), "{name}");
    }
    let long = exception("validationException", r#"{"message":"Input is too long"}"#);
    assert_eq!(read([long.as_slice()]).2.unwrap_err().kind, ModelErrorKind::ContextWindow);
    let headers =
        [(":message-type", "error"), (":error-code", "InternalFailure"), (":error-message", "e")];
    let error = read([frame(&headers, b"").as_slice()]).2.unwrap_err();
    assert_eq!((error.kind, &*error.detail), (ModelErrorKind::Server, "e"));
}

#[test]
fn a_damaged_frame_keeps_what_came_before_it() {
    let mut bytes = stream(&[delta(0, &json!({"text": "a"})), delta(0, &json!({"text": "b"}))]);
    *bytes.last_mut().unwrap() ^= 1;
    let (_, partial, reply) = read([bytes.as_slice()]);
    let error = reply.unwrap_err();
    assert_eq!((error.kind, error.retryable), (ModelErrorKind::Protocol, true));
    assert_eq!(partial.text().as_deref(), Some("a"));
}

#[test]
fn payloads_that_are_no_json_are_errors_where_they_should_be_json() {
    let plain = [(":message-type", "event"), (":event-type", "x"), (":content-type", "text/plain")];
    let end = stream(&[stop("end_turn")]);
    let skipped = [frame(&plain, b"?"), frame(&[], b""), end].concat();
    assert!(read([skipped.as_slice()]).2.is_ok());
    let broken = event("contentBlockDelta", "{");
    assert_eq!(read([broken.as_slice()]).2.unwrap_err().kind, ModelErrorKind::Protocol);
}

#[test]
fn a_body_that_is_json_after_all_is_read_as_one() {
    let body = json!({"output": {"message": {"content": [{"text": "a"}]}},
        "stopReason": "end_turn"});
    let body = format!("{}{body}", "\n ".repeat(20));
    for chunks in [vec![body.as_bytes()], body.as_bytes().chunks(1).collect()] {
        assert_eq!(read(chunks).2.unwrap().text().as_deref(), Some("a"));
    }
    let error = read([br#"{"message":"no"}"#.as_slice()]).2.unwrap_err();
    assert_eq!((error.kind, &*error.detail), (ModelErrorKind::Server, "no"));
}

#[test]
fn an_event_may_be_named_inside_of_it() {
    let wrapped = |value: Value| frame(&[], value.to_string().as_bytes());
    let bytes = [
        wrapped(json!({"contentBlockDelta": {"delta": {"text": "a"}}})),
        wrapped(json!({"contentBlockDelta": {"delta": {"text": "b"}}})),
        wrapped(json!({"messageStop": {"stopReason": "end_turn"}})),
    ];
    assert_eq!(read([bytes.concat().as_slice()]).2.unwrap().text().as_deref(), Some("ab"));
}
