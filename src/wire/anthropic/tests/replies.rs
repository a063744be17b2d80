//! What whole replies are read as.

use serde_json::{Value, json};

use crate::domain::message::{Reply, ReplyPart, ReplyState};
use crate::domain::model::{FinishReason, ModelErrorKind, Provider};
use crate::wire::anthropic::AnthropicMessages;
use crate::wire::{Codec as _, WireError};

fn read(body: &Value) -> Result<Reply, WireError> {
    AnthropicMessages.decode(Provider::Anthropic, body.to_string().as_bytes())
}

fn whole(content: &Value, reason: &str) -> Reply {
    read(&json!({"type": "message", "content": content, "stop_reason": reason})).unwrap()
}

/// The parts of a reply as they are stored.
pub(super) fn parts(reply: &Reply) -> Value {
    serde_json::to_value(&reply.parts).unwrap()
}

#[test]
fn every_block_becomes_a_part_in_its_place() {
    let content = json!([
        {"type": "thinking", "thinking": "h", "signature": "s"},
        {"type": "redacted_thinking", "data": "r"},
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "text", "text": "", "citations": null},
        {"type": "text", "text": "a", "citations": null},
        {"type": "server_tool_use", "id": "x", "name": "web_search", "input": {"q": "b"}},
        {"type": "web_search_tool_result", "tool_use_id": "x", "content": [{"n\u{0}": "\u{0}"}]},
        {"type": "text", "text": "c", "citations": [{"type": "char_location", "cited_text": "d"}]},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"b": 1, "a": 2}},
        {"text": "no kind"},
        7,
        null,
    ]);
    let expected = json!([
        {"part_kind": "thinking", "text": "h", "signature": "s", "issuer": "anthropic"},
        {"part_kind": "redacted_thinking", "data": "r", "issuer": "anthropic"},
        {"part_kind": "text", "text": "a"},
        {
            "part_kind": "unknown",
            "issuer": "anthropic",
            "raw": {"type": "server_tool_use", "id": "x", "name": "web_search", "input": {"q": "b"}},
        },
        {
            "part_kind": "unknown",
            "issuer": "anthropic",
            "raw": {
                "type": "web_search_tool_result",
                "tool_use_id": "x",
                "content": [{"n\u{FFFD}": "\u{FFFD}"}],
            },
        },
        {
            "part_kind": "text",
            "text": "c",
            "echo": {"citations": [{"type": "char_location", "cited_text": "d"}]},
        },
        {
            "part_kind": "tool_call",
            "tool_call_id": "call_1",
            "provider_call_id": "t",
            "name": "f",
            "arguments": "{\"b\":1,\"a\":2}",
        },
        {"part_kind": "unknown", "issuer": "anthropic", "raw": {"text": "no kind"}},
    ]);
    assert_eq!(parts(&whole(&content, "tool_use")), expected);
}

#[test]
fn calls_have_ids_of_their_own_and_arguments_that_are_text() {
    let call =
        |id: &str, input: Value| json!({"type": "tool_use", "id": id, "name": "f", "input": input});
    let reply = whole(
        &json!([
            call("a", json!({"b": 1.0})),
            call("a", json!({})),
            call("", Value::Null),
            call("d", json!("{\"e\":\"f\"}")),
            call("g", json!(" ")),
            call("h", json!([1])),
            {"type": "tool_use"},
        ]),
        "tool_use",
    );
    let calls: Vec<_> = reply
        .tool_calls()
        .map(|call| {
            let id = call.provider_call_id.as_deref();
            (call.tool_call_id.as_str(), id, call.arguments.as_str())
        })
        .collect();
    let expected = [
        ("call_1", Some("a"), "{\"b\":1.0}"),
        ("call_2", None, "{}"),
        ("call_3", None, "{}"),
        ("call_4", Some("d"), "{\"e\":\"f\"}"),
        ("call_5", Some("g"), "{}"),
        ("call_6", Some("h"), "[1]"),
        ("call_7", None, "{}"),
    ];
    assert_eq!(calls, expected);
}

#[test]
fn who_called_is_kept_where_it_was_not_the_model_itself() {
    let call = |caller: Value| {
        let reply = whole(&json!([{"type": "tool_use", "id": "a", "caller": caller}]), "tool_use");
        parts(&reply)[0]["echo"].clone()
    };
    assert_eq!(call(json!({"type": "direct"})), Value::Null);
    assert_eq!(call(Value::Null), Value::Null);
    let by_code = json!({"type": "code_execution_20260120", "tool_id": "x"});
    assert_eq!(call(by_code.clone()), json!({"caller": by_code}));
}

#[test]
fn reasons_to_stop_are_known_and_a_call_decides() {
    for (raw, expected) in [
        ("end_turn", Some(FinishReason::Stop)),
        ("stop_sequence", Some(FinishReason::Stop)),
        ("compaction", Some(FinishReason::Stop)),
        ("max_tokens", Some(FinishReason::Length)),
        ("model_context_window_exceeded", Some(FinishReason::Length)),
        ("tool_use", Some(FinishReason::ToolCalls)),
        ("refusal", Some(FinishReason::ContentFilter)),
        ("pause_turn", Some(FinishReason::Other)),
        ("something_new", Some(FinishReason::Other)),
        ("", None),
    ] {
        assert_eq!(whole(&json!([]), raw).finish_reason, expected, "{raw}");
        let called = whole(&json!([{"type": "tool_use", "name": "f"}]), raw).finish_reason;
        let decided = match expected {
            Some(FinishReason::Length | FinishReason::ContentFilter) => expected,
            _ => Some(FinishReason::ToolCalls),
        };
        assert_eq!(called, decided, "{raw}");
    }
}

#[test]
fn what_is_cached_counts_as_input() {
    let usage = |usage: Value| {
        let body = json!({"content": [], "usage": usage});
        serde_json::to_value(read(&body).unwrap().usage).unwrap()
    };
    let told = json!({
        "input_tokens": 2,
        "cache_read_input_tokens": 30,
        "cache_creation_input_tokens": 4.0,
        "cache_creation": {"ephemeral_5m_input_tokens": 9},
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 3},
    });
    let expected =
        json!({"input": 36, "output": 5, "cache_read": 30, "cache_write": 4, "reasoning": 3});
    assert_eq!(usage(told), expected);
    let by_age = json!({
        "input_tokens": 1,
        "cache_creation": {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 3},
        "output_tokens": null,
    });
    assert_eq!(usage(by_age)["cache_write"], 5);
    for none in [Value::Null, json!({}), json!("x"), json!({"input_tokens": null})] {
        assert_eq!(usage(none), Value::Null);
    }
}

#[test]
fn everything_but_the_content_is_optional() {
    let reply = read(&json!({"content": "hi"})).unwrap();
    assert_eq!(parts(&reply), json!([{"part_kind": "text", "text": "hi"}]));
    assert_eq!((reply.model, reply.response_id, reply.finish_reason), (None, None, None));
    assert_eq!(reply.state, ReplyState::Complete);
    let reply = read(&json!({"id": "m", "model": "c", "content": null, "stop_reason": "refusal"}));
    let reply = reply.unwrap();
    assert_eq!((reply.model.as_deref(), reply.response_id.as_deref()), (Some("c"), Some("m")));
    assert_eq!(reply.parts, Vec::<ReplyPart>::new());
}

#[test]
fn a_body_without_a_message_is_no_reply() {
    let kind = |body: &[u8]| AnthropicMessages.decode(Provider::Anthropic, body).unwrap_err().kind;
    for body in ["", " \n", "{}", "[]", "7", "null", "<html>", "{\"type\":\"message\"}"] {
        assert_eq!(kind(body.as_bytes()), ModelErrorKind::Protocol, "{body}");
    }
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "no"}});
    assert_eq!(kind(error.to_string().as_bytes()), ModelErrorKind::Overloaded);
    assert_eq!(kind(b"{\"type\":\"error\"}"), ModelErrorKind::Server);
}
