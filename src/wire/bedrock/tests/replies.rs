//! Whole replies.

use serde_json::{Value, json};

use super::BedrockConverse;
use crate::domain::message::{Reply, ReplyPart};
use crate::domain::model::{FinishReason, ModelErrorKind, Provider, Usage};
use crate::wire::{Codec as _, WireError};

fn decode(body: &Value) -> Result<Reply, WireError> {
    BedrockConverse.decode(Provider::Bedrock, body.to_string().as_bytes())
}

fn answer(content: &Value, stop: &Value) -> Value {
    json!({"output": {"message": {"role": "assistant", "content": content}}, "stopReason": stop,
        "usage": {"inputTokens": 3.0, "outputTokens": 4, "cacheReadInputTokens": 5,
            "cacheWriteInputTokens": 6, "totalTokens": 18}})
}

fn parts(reply: &Reply) -> Value {
    serde_json::to_value(&reply.parts).unwrap()
}

#[test]
fn every_kind_of_block_becomes_a_part() {
    let server = json!({"toolUse": {"toolUseId": "s", "name": "n", "type": "server_tool_use"}});
    let ran = json!({"toolResult": {"toolUseId": "s", "content": []}});
    let cites = json!([{"title": "t"}]);
    let lone = json!({"citationsContent": {"citations": cites}});
    let reply = decode(&answer(
        &json!([
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}},
            {"reasoningContent": {"redactedContent": "ZA=="}},
            server, ran,
            {"text": "a\u{0}"}, {"text": ""},
            {"citationsContent": {"content": [{"text": "b"}, {"text": "c"}], "citations": cites}},
            lone,
            {"toolUse": {"toolUseId": "1", "name": "f", "input": {"z": 1, "a": 2},
                "type": "tool_use"}},
            {"toolUse": {"toolUseId": "1", "name": "f", "input": null}},
            {"toolUse": {"name": "", "input": ""}},
            {"future": {"x": 1}},
        ]),
        &json!("tool_use"),
    ));
    let issuer = "bedrock";
    let expected = json!([
        {"part_kind": "thinking", "text": "hm", "signature": "sig", "issuer": issuer},
        {"part_kind": "redacted_thinking", "data": "ZA==", "issuer": issuer},
        {"part_kind": "unknown", "issuer": issuer, "raw": server},
        {"part_kind": "unknown", "issuer": issuer, "raw": ran},
        {"part_kind": "text", "text": "a\u{FFFD}"},
        {"part_kind": "text", "text": "bc", "echo": {"citations": cites}},
        {"part_kind": "unknown", "issuer": issuer, "raw": lone},
        {"part_kind": "tool_call", "tool_call_id": "call_1", "provider_call_id": "1", "name": "f",
            "arguments": "{\"z\":1,\"a\":2}"},
        {"part_kind": "tool_call", "tool_call_id": "call_2", "name": "f", "arguments": "{}"},
        {"part_kind": "unknown", "issuer": issuer, "raw": {"future": {"x": 1}}},
    ]);
    let reply = reply.unwrap();
    assert_eq!(parts(&reply), expected);
    let usage = Usage { input: 14, output: 4, cache_read: 5, cache_write: 6, reasoning: 0 };
    assert_eq!(reply.usage, Some(usage));
}

#[test]
fn reasons_are_read_and_a_call_decides() {
    let said = json!([{"text": "a"}]);
    let called = json!([{"toolUse": {"toolUseId": "1", "name": "f", "input": {}}}]);
    let reason =
        |content: &Value, stop: Value| decode(&answer(content, &stop)).unwrap().finish_reason;
    for (raw, finish) in [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("max_tokens", FinishReason::Length),
        ("model_context_window_exceeded", FinishReason::Length),
        ("tool_use", FinishReason::ToolCalls),
        ("guardrail_intervened", FinishReason::ContentFilter),
        ("content_filtered", FinishReason::ContentFilter),
        ("malformed_model_output", FinishReason::Error),
        ("malformed_tool_use", FinishReason::Error),
        ("future", FinishReason::Other),
    ] {
        assert_eq!(reason(&said, json!(raw)), Some(finish), "{raw}");
    }
    assert_eq!(reason(&said, Value::Null), None);
    for raw in [json!("end_turn"), json!("future"), Value::Null] {
        assert_eq!(reason(&called, raw), Some(FinishReason::ToolCalls));
    }
    assert_eq!(reason(&called, json!("max_tokens")), Some(FinishReason::Length));
}

#[test]
fn members_may_be_missing_or_null() {
    for body in [
        json!({"output": {"message": {"content": null}}, "stopReason": "end_turn", "usage": null}),
        json!({"output": {"message": {}}}),
        json!({"stopReason": "guardrail_intervened", "usage": {}}),
    ] {
        let reply = decode(&body).unwrap();
        assert_eq!((reply.parts, reply.usage), (Vec::<ReplyPart>::new(), None), "{body}");
    }
}

#[test]
fn a_body_without_a_message_is_an_error() {
    for (body, kind) in [
        (json!({"message": "Too slow", "__type": "x"}), ModelErrorKind::Server),
        (json!({"code": "ThrottlingException", "message": "m"}), ModelErrorKind::RateLimit),
        (json!({"error": {"type": "overloaded_error"}}), ModelErrorKind::Overloaded),
        (json!({"output": {}}), ModelErrorKind::Protocol),
        (json!([]), ModelErrorKind::Protocol),
        (Value::Null, ModelErrorKind::Protocol),
    ] {
        assert_eq!(decode(&body).unwrap_err().kind, kind, "{body}");
    }
    let error = BedrockConverse.decode(Provider::Bedrock, b"<html>").unwrap_err();
    assert_eq!((error.kind, error.retryable), (ModelErrorKind::Protocol, true));
}
