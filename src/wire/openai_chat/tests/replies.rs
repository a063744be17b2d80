//! What replies are read as.

use serde_json::{Value, json};

use crate::domain::event::DeltaKind;
use crate::domain::message::{Reply, ReplyPart, ReplyState};
use crate::domain::model::{FinishReason, ModelErrorKind, Provider};
use crate::wire::openai_chat::OpenaiChat;
use crate::wire::{Codec as _, DeltaPiece, WireError};

fn whole(message: &Value, finish: &str) -> Reply {
    let body = json!({"choices": [{"message": message, "finish_reason": finish}]});
    OpenaiChat.decode(Provider::Openai, body.to_string().as_bytes()).unwrap()
}

fn streamed(deltas: &[Value]) -> (Vec<DeltaPiece>, Result<Reply, WireError>) {
    let mut decoder = OpenaiChat.stream(Provider::Openai);
    let mut pieces = Vec::new();
    for delta in deltas {
        let chunk = json!({"choices": [{"delta": delta}]});
        pieces.extend(decoder.push(format!("data: {chunk}\n\n").as_bytes()).unwrap());
    }
    pieces.extend(decoder.push(b"data: [DONE]\n\n").unwrap());
    (pieces, decoder.finish())
}

fn calls(reply: &Reply) -> Vec<(&str, Option<&str>, &str, &str)> {
    let calls = reply.tool_calls();
    calls
        .map(|call| {
            let id = call.provider_call_id.as_deref();
            (call.tool_call_id.as_str(), id, call.name.as_str(), call.arguments.as_str())
        })
        .collect()
}

fn call(id: &str, name: &str, arguments: &Value) -> Value {
    json!({"id": id, "function": {"name": name, "arguments": arguments}})
}

#[test]
fn a_call_that_is_spelt_both_ways_is_one_call() {
    let both = |arguments: &str| {
        let function = json!({"name": "one", "arguments": arguments});
        json!({
            "function_call": function,
            "tool_calls": [{"index": 0, "id": "a", "function": function}],
        })
    };
    let expected = [("call_1", Some("a"), "one", "{\"b\":1}")];
    assert_eq!(calls(&whole(&both("{\"b\":1}"), "tool_calls")), expected);
    let (pieces, reply) = streamed(&[both("{\"b\""), both(":1}")]);
    assert_eq!(calls(&reply.unwrap()), expected);
    assert_eq!(pieces.len(), 2);
}

#[test]
fn a_call_in_the_older_spelling_alone_is_read() {
    let older = |arguments: &str| json!({"function_call": {"name": "one", "arguments": arguments}});
    let expected = [("call_1", None, "one", "{\"b\":1}")];
    assert_eq!(calls(&whole(&older("{\"b\":1}"), "function_call")), expected);
    let (_, reply) = streamed(&[older("{\"b\""), older(":1}")]);
    assert_eq!(calls(&reply.unwrap()), expected);
}

#[test]
fn calls_of_a_whole_reply_get_positional_ids_and_keep_the_providers_own() {
    let reply = whole(
        &json!({"tool_calls": [
            call("a", "one", &json!("{\"b\": 1,  \"a\": 1.0}")),
            call("null", "two", &json!({"k": [1]})),
            call("a", "three", &json!("")),
            call("", "", &json!("")),
            call("", "", &json!("[1]")),
            {"function": {"name": "four", "arguments": null}},
        ]}),
        "stop",
    );
    assert_eq!(
        calls(&reply),
        [
            ("call_1", Some("a"), "one", "{\"b\": 1,  \"a\": 1.0}"),
            ("call_2", None, "two", "{\"k\":[1]}"),
            ("call_3", None, "three", "{}"),
            ("call_4", None, "", "[1]"),
            ("call_5", None, "four", "{}"),
        ]
    );
    assert_eq!(reply.finish_reason, Some(FinishReason::ToolCalls));
}

#[test]
fn fragments_of_calls_are_merged_whatever_their_indexes_and_ids_are() {
    let none = Value::Null;
    for (what, deltas) in [
        (
            "by index",
            vec![
                fragment(json!(0), json!("a"), "f", ""),
                fragment(json!(1), json!("b"), "g", "{"),
                fragment(json!(0), none.clone(), "", "{}"),
                fragment(json!(1), json!(""), "", "}"),
            ],
        ),
        (
            "every index the same",
            vec![
                fragment(json!(0), json!("a"), "f", "{"),
                fragment(json!(0), json!("a"), "f", "}"),
                fragment(json!(0), json!("b"), "g", "{}"),
            ],
        ),
        (
            "every index the same, taking turns",
            vec![
                fragment(json!(0), json!("a"), "f", "{"),
                fragment(json!(0), json!("b"), "g", "{"),
                fragment(json!(0), json!("a"), "", "}"),
                fragment(json!(0), json!("b"), "g", "}"),
            ],
        ),
        (
            "by id",
            vec![
                fragment(none.clone(), json!("a"), "f", "{"),
                fragment(none.clone(), json!("b"), "g", "{}"),
                fragment(none, json!("a"), "", "}"),
            ],
        ),
    ] {
        assert_two_calls(what, &deltas);
    }
}

#[test]
fn fragments_of_calls_are_merged_where_their_ids_are_missing_or_late() {
    let none = Value::Null;
    for (what, deltas) in [
        (
            "by order",
            [
                fragment(none.clone(), json!("a"), "f", "{"),
                fragment(none.clone(), none.clone(), "", "}"),
                fragment(none.clone(), json!("b"), "g", "{}"),
            ],
        ),
        (
            "a late id",
            [
                fragment(json!(3), none, "f", "{"),
                fragment(json!(3), json!("a"), "", "}"),
                fragment(json!(7), json!("b"), "g", "{}"),
            ],
        ),
    ] {
        assert_two_calls(what, &deltas);
    }
}

fn assert_two_calls(what: &str, deltas: &[Value]) {
    let (_, reply) = streamed(deltas);
    let reply = reply.unwrap();
    let merged = [("call_1", Some("a"), "f", "{}"), ("call_2", Some("b"), "g", "{}")];
    assert_eq!(calls(&reply), merged, "{what}");
}

#[expect(clippy::needless_pass_by_value, reason = "the fragments are written out in place")]
fn fragment(index: Value, id: Value, name: &str, arguments: &str) -> Value {
    json!({"tool_calls": [{"index": index, "id": id,
        "function": {"name": name, "arguments": arguments}}]})
}

#[test]
fn whole_calls_without_ids_in_the_same_slot_stay_apart() {
    let delta = |name: &str| {
        json!({"tool_calls": [{"index": 0,
        "function": {"name": name, "arguments": "{\"a\":1}"}}]})
    };
    let (_, reply) = streamed(&[delta("f"), delta("f"), delta("g")]);
    let names: Vec<_> = reply.unwrap().tool_calls().map(|call| call.name.clone()).collect();
    assert_eq!(names, ["f", "f", "g"]);
}

#[test]
fn deltas_carry_every_piece_in_order_and_none_is_empty() {
    let (pieces, reply) = streamed(&[
        json!({"role": "assistant", "content": ""}),
        json!({"reasoning_content": "hm"}),
        json!({"content": "a"}),
        json!({"content": [{"type": "text", "text": "b"}, {"type": "mystery", "x": 1}]}),
        json!({"tool_calls": [{"index": 0, "id": "i", "function": {"name": "f"}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}),
        json!(null),
    ]);
    let told: Vec<_> = pieces.iter().map(|piece| (piece.kind, piece.text.as_str())).collect();
    assert_eq!(
        told,
        [
            (DeltaKind::Thinking, "hm"),
            (DeltaKind::Text, "a"),
            (DeltaKind::Text, "b"),
            (DeltaKind::ToolCall, "{}"),
        ]
    );
    let reply = reply.unwrap();
    let unknown = reply.parts.iter().any(|part| {
        matches!(part, ReplyPart::Unknown(part) if part.raw == json!({"type": "mystery", "x": 1}))
    });
    assert!(unknown);
    assert_eq!((reply.text().as_deref(), reply.state), (Some("ab"), ReplyState::Complete));
}

#[test]
fn the_same_thinking_under_two_names_is_read_once() {
    let details = json!([{"type": "reasoning.text", "text": "hm", "signature": "s"},
        {"type": "reasoning.encrypted", "data": "d"}]);
    let reply = whole(&json!({"reasoning": "hm", "reasoning_details": details}), "stop");
    let [ReplyPart::RedactedThinking(redacted), ReplyPart::Thinking(thinking)] = &reply.parts[..]
    else {
        panic!("{reply:?}")
    };
    assert_eq!((redacted.data.as_str(), thinking.text.as_str()), ("d", "hm"));
    assert_eq!(
        (thinking.signature.as_deref(), thinking.issuer),
        (Some("s"), Some(Provider::Openai))
    );
}

#[test]
fn nul_characters_are_replaced_everywhere() {
    let reply = whole(
        &json!({"content": "a\0", "reasoning": "\0", "refusal": "\0",
            "tool_calls": [call("i\0", "f\0", &json!("{\0}"))]}),
        "stop",
    );
    let stored = serde_json::to_string(&reply).unwrap();
    assert!(!stored.contains("\\u0000"), "{stored}");
    assert_eq!(stored.matches('\u{FFFD}').count(), 6, "{stored}");
}

#[test]
fn an_unknown_finish_reason_is_other_and_none_is_none() {
    let reason = |raw| whole(&json!({"content": "x"}), raw).finish_reason;
    assert_eq!(reason("eos"), Some(FinishReason::Other));
    assert_eq!(reason(""), None);
    assert_eq!(reason("model_length"), Some(FinishReason::Length));
}

#[test]
fn a_body_that_is_no_reply_is_a_protocol_error() {
    for body in [
        "",
        "  \n",
        "<html>",
        "null",
        "[]",
        "{}",
        "{\"choices\":[]}",
        "{\"choices\":null}",
        "\u{1F600}",
    ] {
        let error = OpenaiChat.decode(Provider::Openai, body.as_bytes()).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Protocol, "{body}");
        assert!(error.retryable, "{body}");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(
        OpenaiChat.decode(Provider::Openai, deep.as_bytes()).unwrap_err().kind,
        ModelErrorKind::Protocol
    );
}

#[test]
fn a_choice_without_a_message_is_an_empty_reply() {
    let body = br#"  {"choices":[{"finish_reason":"content_filter"}]}"#;
    let reply = OpenaiChat.decode(Provider::Openai, body).unwrap();
    assert_eq!((reply.parts, reply.finish_reason), (vec![], Some(FinishReason::ContentFilter)));
}

fn end(body: &str) -> Result<Reply, WireError> {
    let mut decoder = OpenaiChat.stream(Provider::Openai);
    decoder.push(body.as_bytes())?;
    decoder.finish()
}

#[test]
fn a_stream_is_a_reply_only_after_a_finish_reason_or_the_end_marker() {
    let piece = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    let finish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}";
    let kind = |body: String| end(&body).map_err(|error| error.kind).map(|reply| reply.text());
    let truncated = Err(ModelErrorKind::TruncatedStream);
    let said = Ok(Some("x".to_owned()));
    assert_eq!(kind(piece.to_owned()), truncated);
    assert_eq!(kind(String::new()), truncated);
    assert_eq!(kind(": keep-alive\n\n".to_owned()), truncated);
    assert_eq!(kind(format!("{piece}data: {{\"choi")), truncated);
    assert_eq!(kind(format!("{piece}data: [DONE]")), said);
    assert_eq!(kind(format!("{piece}{finish}")), said);
    assert_eq!(kind(format!("{piece}data: [DONE]\n\ndata: garbage\n\n")), said);
    assert_eq!(kind("data: [DONE]\n\n".to_owned()), Err(ModelErrorKind::Protocol));
    assert_eq!(kind(format!("{piece}data: garbage\n\n")), Err(ModelErrorKind::Protocol));
}

#[test]
fn a_body_without_events_on_a_stream_is_read_as_json() {
    let error = end("{\"error\":{\"message\":\"no\",\"code\":429}}").unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::RateLimit);
    let reply = end(r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#);
    assert_eq!(reply.unwrap().text().as_deref(), Some("hi"));
}

#[test]
fn what_has_come_of_a_broken_stream_is_an_interrupted_reply() {
    let mut decoder = OpenaiChat.stream(Provider::Openai);
    decoder.push(b"data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n").unwrap();
    let error = decoder.push(b"data: {\"error\":{\"type\":\"overloaded_error\"}}\n\n").unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Overloaded);
    let partial = decoder.partial();
    assert_eq!((partial.state, partial.text().as_deref()), (ReplyState::Interrupted, Some("half")));
}

#[test]
fn a_reply_with_calls_without_end_is_refused_for_good() {
    let calls: Vec<Value> = (0..2_000).map(|n| call(&format!("c{n}"), "f", &json!("{}"))).collect();
    let message = json!({"tool_calls": calls});
    let body = json!({"choices": [{"message": message}]}).to_string();
    let whole = OpenaiChat.decode(Provider::Openai, body.as_bytes()).unwrap_err();
    let chunk = json!({"choices": [{"delta": message}]});
    let streamed = end(&format!("data: {chunk}\n\n")).unwrap_err();
    for error in [whole, streamed] {
        assert_eq!((error.kind, error.retryable), (ModelErrorKind::Protocol, false));
    }
}

#[test]
fn what_moonshot_read_from_its_cache_is_counted() {
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 1, "cached_tokens": 7});
    let choice = json!({"finish_reason": "stop", "message": {"content": "a"}});
    let body = json!({"choices": [choice], "usage": usage}).to_string();
    let reply = OpenaiChat.decode(Provider::Openai, body.as_bytes()).unwrap();
    assert_eq!(reply.usage.map(|usage| (usage.input, usage.cache_read)), Some((9, 7)));
}
