//! What streams are read as.

use serde_json::{Value, json};

use crate::domain::event::DeltaKind;
use crate::domain::message::{Reply, ReplyState};
use crate::domain::model::{FinishReason, ModelErrorKind as Kind, Provider, Usage};
use crate::wire::gemini::GeminiGenerate;
use crate::wire::{Codec as _, DeltaPiece, WireError};

fn chunk(parts: &Value) -> Value {
    json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}]})
}

fn end() -> Value {
    json!({"candidates": [{"finishReason": "STOP"}]})
}

fn events(chunks: &[Value]) -> String {
    let events: Vec<String> = chunks.iter().map(|chunk| format!("data: {chunk}")).collect();
    events.join("\r\n\r\n") + "\r\n\r\n"
}

fn read(body: &str) -> (Vec<DeltaPiece>, Result<Reply, WireError>) {
    let mut decoder = GeminiGenerate.stream(Provider::Gemini);
    match decoder.push(body.as_bytes()) {
        Ok(pieces) => (pieces, decoder.finish()),
        Err(error) => (Vec::new(), Err(error)),
    }
}

fn failure(body: &str) -> (Kind, bool) {
    let error = read(body).1.unwrap_err();
    (error.kind, error.retryable)
}

#[test]
fn pieces_are_handed_on_and_put_together() {
    let (pieces, reply) = read(&events(&[
        chunk(&json!([{"text": "h", "thought": true}])),
        chunk(&json!([{"text": "m", "thought": true}])),
        chunk(&json!([{"text": "a"}])),
        chunk(&json!([{"text": "b"}, {"functionCall": {"name": "f", "args": {"x": 1}}}])),
        chunk(&json!([{"text": "", "thoughtSignature": "s"}])),
        end(),
    ]));
    let pieces: Vec<_> = pieces.iter().map(|piece| (piece.kind, piece.text.as_str())).collect();
    assert_eq!(
        pieces,
        [
            (DeltaKind::Thinking, "h"),
            (DeltaKind::Thinking, "m"),
            (DeltaKind::Text, "a"),
            (DeltaKind::Text, "b"),
            (DeltaKind::ToolCall, "{\"x\":1}"),
        ]
    );
    assert_eq!(
        serde_json::to_value(reply.unwrap().parts).unwrap(),
        json!([
            {"part_kind": "thinking", "text": "hm", "issuer": "gemini"},
            {"part_kind": "text", "text": "ab"},
            {"part_kind": "tool_call", "tool_call_id": "call_1", "name": "f",
                "arguments": "{\"x\":1}"},
            {"part_kind": "text", "text": "", "echo": {"thoughtSignature": "s"}},
        ])
    );
}

#[test]
fn a_stream_reads_the_same_split_at_every_byte() {
    let body = events(&[chunk(&json!([{"text": "aé\u{1F600}"}])), end()]);
    let whole = read(&body).1.unwrap();
    for at in 0..body.len() {
        let (head, tail) = body.as_bytes().split_at(at);
        let mut decoder = GeminiGenerate.stream(Provider::Gemini);
        decoder.push(head).unwrap();
        decoder.push(tail).unwrap();
        assert_eq!(decoder.finish().unwrap(), whole, "{at}");
    }
}

#[test]
fn a_stream_is_whole_once_a_reason_has_come_and_not_before() {
    let half = events(&[chunk(&json!([{"text": "a"}]))]);
    assert_eq!(failure(&half), (Kind::TruncatedStream, true));
    assert_eq!(failure(""), (Kind::TruncatedStream, true));
    let done = format!("{half}data: [DONE]\n\n");
    assert_eq!(failure(&done), (Kind::TruncatedStream, true));
    let cut = format!("{half}data: {{\"candidates\":[{{\"finishR");
    assert_eq!(failure(&cut), (Kind::TruncatedStream, true));
    let blocked = events(&[json!({"promptFeedback": {"blockReason": "SAFETY"}})]);
    assert_eq!(read(&blocked).1.unwrap().finish_reason, Some(FinishReason::ContentFilter));
}

#[test]
fn what_comes_after_the_reason_still_counts() {
    let usage = json!({"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}});
    let signature = chunk(&json!([{"text": "", "thoughtSignature": "s"}]));
    let early = json!({"usageMetadata": {"promptTokenCount": 9, "thoughtsTokenCount": 9}});
    let (_, reply) = read(&events(&[early, end(), signature, usage]));
    let reply = reply.unwrap();
    assert_eq!(reply.usage, Some(Usage { input: 3, output: 4, ..Usage::default() }));
    assert_eq!((reply.parts.len(), reply.finish_reason), (1, Some(FinishReason::Stop)));
}

#[test]
fn an_error_inside_the_stream_has_the_class_of_its_status() {
    let half = events(&[chunk(&json!([{"text": "a"}]))]);
    let overloaded = json!({"error": {"code": 503, "message": "The model is overloaded."}});
    let exhausted = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}});
    for (error, kind) in [
        (overloaded.clone(), Kind::Overloaded),
        (json!([overloaded]), Kind::Overloaded),
        (exhausted, Kind::RateLimit),
        (json!({"error": {"code": 500, "status": "INTERNAL"}}), Kind::Server),
    ] {
        let body = format!("{half}data: {error}\n\n");
        assert_eq!(failure(&body), (kind, true), "{error}");
        let named = format!("{half}event: error\ndata: {error}\n\n");
        assert_eq!(failure(&named), (kind, true), "{error}");
        // Labelled as events, but a bare document.
        assert_eq!(failure(&error.to_string()), (kind, true), "{error}");
        let pretty = serde_json::to_string_pretty(&error).unwrap();
        assert_eq!(failure(&pretty), (kind, true), "{error}");
    }
}

#[test]
fn a_list_of_chunks_is_a_stream() {
    let chunks = [chunk(&json!([{"text": "a"}])), chunk(&json!([{"text": "b"}])), end()];
    let list = serde_json::to_string_pretty(&chunks).unwrap();
    let whole = GeminiGenerate.decode(Provider::Gemini, list.as_bytes()).unwrap();
    assert_eq!(whole.text().as_deref(), Some("ab"));
    assert_eq!(read(&list).1.unwrap(), whole);

    let cut = json!(chunks[..2]).to_string();
    let error = GeminiGenerate.decode(Provider::Gemini, cut.as_bytes()).unwrap_err();
    assert_eq!(error.kind, Kind::TruncatedStream);

    let failed = json!([chunks[0], {"error": {"code": 503, "message": "overloaded"}}]).to_string();
    let error = GeminiGenerate.decode(Provider::Gemini, failed.as_bytes()).unwrap_err();
    assert_eq!(error.kind, Kind::Overloaded);
}

fn piece(call: &Value) -> Value {
    chunk(&json!([{"functionCall": call}]))
}

fn arguments(chunks: &[Value]) -> Vec<(String, String)> {
    let reply = read(&events(chunks)).1.unwrap();
    reply.tool_calls().map(|call| (call.name.clone(), call.arguments.clone())).collect()
}

fn pair(name: &str, arguments: &str) -> (String, String) {
    (name.to_owned(), arguments.to_owned())
}

#[test]
fn arguments_in_pieces_are_put_together() {
    let begun = piece(&json!({"name": "f", "willContinue": true}));
    let city = |text: &str, more: bool| {
        let part = json!({"jsonPath": "$.city", "stringValue": text, "willContinue": more});
        piece(&json!({"partialArgs": [part], "willContinue": true}))
    };
    let closed = piece(&json!({}));
    let other = piece(&json!({"name": "g", "args": {"n": 1}}));
    let (os, lo) = (city("Os", true), city("lo", false));
    let whole = [begun.clone(), os.clone(), lo.clone(), closed, other.clone(), end()];
    let expected = [pair("f", "{\"city\":\"Oslo\"}"), pair("g", "{\"n\":1}")];
    assert_eq!(arguments(&whole), expected);
    // The next call ends the one before it.
    assert_eq!(arguments(&[begun.clone(), os.clone(), lo, other, end()]), expected);
    // What the end of the reply cuts off cannot be taken for whole.
    assert_eq!(arguments(&[begun, os, end()]), [pair("f", "{\"city\":\"Os\"")]);
}

#[test]
fn what_has_come_of_a_broken_stream_is_an_interrupted_reply() {
    let mut decoder = GeminiGenerate.stream(Provider::Vertex);
    decoder.push(events(&[chunk(&json!([{"text": "half"}]))]).as_bytes()).unwrap();
    decoder.push(b"data: {\"error\":{\"code\":500}}\n\n").unwrap_err();
    let partial = decoder.partial();
    assert_eq!((partial.text().as_deref(), partial.state), (Some("half"), ReplyState::Interrupted));
    assert_eq!(partial.provider, Some(Provider::Vertex));
}

#[test]
fn an_event_that_is_no_json_is_a_protocol_error() {
    assert_eq!(failure("data: nonsense\n\n"), (Kind::Protocol, true));
    assert_eq!(failure("data: 3\n\n"), (Kind::Protocol, true));
}
