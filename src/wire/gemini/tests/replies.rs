//! What replies are read as.

use serde_json::{Value, json};

use crate::domain::message::{Reply, ReplyPart, UnknownPart};
use crate::domain::model::{FinishReason, ModelErrorKind as Kind, Provider, Usage};
use crate::wire::gemini::GeminiGenerate;
use crate::wire::{Codec as _, WireError};

fn decoded(body: &Value) -> Result<Reply, WireError> {
    GeminiGenerate.decode(Provider::Gemini, body.to_string().as_bytes())
}

fn of_parts(parts: &Value) -> Reply {
    let candidate = json!({"content": {"parts": parts, "role": "model"}, "finishReason": "STOP"});
    decoded(&json!({"candidates": [candidate]})).unwrap()
}

fn finished(reason: &Value) -> Option<FinishReason> {
    decoded(&json!({"candidates": [{"content": {}, "finishReason": reason}]}))
        .unwrap()
        .finish_reason
}

/// The parts of a reply without what is left out of JSON.
fn parts(reply: &Reply) -> Value {
    serde_json::to_value(&reply.parts).unwrap()
}

#[test]
fn parts_are_kept_in_order_with_what_stands_beside_them() {
    let image =
        json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}, "thoughtSignature": "s"});
    let reply = of_parts(&json!([
        {"text": "hm", "thought": true},
        {"text": "hm", "thought": true, "thoughtSignature": "s1"},
        {"text": "a", "thought": false},
        {"text": "b"},
        {"text": "c", "thoughtSignature": "s2+/="},
        {"text": "d"},
        image,
        {"text": ""},
        {"functionCall": {"name": "f", "args": {"z": 1, "a": 2.5}, "id": "x"}, "thoughtSignature": "s3"},
        {"functionCall": {"name": "f", "id": "x"}},
        {"functionCall": {"name": "g", "args": null, "id": ""}},
        {"text": "", "thoughtSignature": "s4"},
        {"thoughtSignature": "s5"},
        {},
        null,
    ]));
    assert_eq!(
        parts(&reply),
        json!([
            {"part_kind": "thinking", "text": "hm", "issuer": "gemini"},
            {"part_kind": "thinking", "text": "hm", "issuer": "gemini", "signature": "s1"},
            {"part_kind": "text", "text": "ab"},
            {"part_kind": "text", "text": "c", "echo": {"thoughtSignature": "s2+/="}},
            {"part_kind": "text", "text": "d"},
            {"part_kind": "unknown", "issuer": "gemini", "raw": image},
            {"part_kind": "tool_call", "tool_call_id": "call_1", "provider_call_id": "x", "name": "f",
                "arguments": "{\"z\":1,\"a\":2.5}", "echo": {"thoughtSignature": "s3"}},
            {"part_kind": "tool_call", "tool_call_id": "call_2", "name": "f", "arguments": "{}"},
            {"part_kind": "tool_call", "tool_call_id": "call_3", "name": "g", "arguments": "{}"},
            {"part_kind": "text", "text": "", "echo": {"thoughtSignature": "s4"}},
            {"part_kind": "text", "text": "", "echo": {"thoughtSignature": "s5"}},
        ])
    );
    assert_eq!(reply.finish_reason, Some(FinishReason::ToolCalls));
}

#[test]
fn parts_without_words_for_them_are_kept_as_they_came() {
    let raw = json!({"executableCode": {"language": "PYTHON", "code": "1"}, "k": [null]});
    let unknown = UnknownPart { issuer: Some(Provider::Gemini), raw: raw.clone() };
    assert_eq!(of_parts(&json!([raw])).parts, [ReplyPart::Unknown(unknown)]);
}

#[test]
fn arguments_are_kept_as_text_where_they_are_text() {
    for (args, text) in [
        (json!("{\"a\":1.0}"), "{\"a\":1.0}"),
        (json!(""), "{}"),
        (json!([1]), "[1]"),
        (json!("{\"a\":"), "{\"a\":"),
    ] {
        let reply = of_parts(&json!([{"functionCall": {"name": "f", "args": args}}]));
        assert_eq!(reply.tool_calls().next().unwrap().arguments, text);
    }
    assert_eq!(of_parts(&json!([{"functionCall": {"name": "", "id": "x"}}])).parts, []);
}

#[test]
fn why_it_stopped_is_read_from_every_reason() {
    for (reasons, read) in [
        (&["STOP", "stop"][..], FinishReason::Stop),
        (&["MAX_TOKENS"], FinishReason::Length),
        (
            &[
                "SAFETY",
                "RECITATION",
                "BLOCKLIST",
                "PROHIBITED_CONTENT",
                "SPII",
                "IMAGE_SAFETY",
                "MODEL_ARMOR",
            ],
            FinishReason::ContentFilter,
        ),
        (
            &["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "LANGUAGE", "NO_IMAGE"],
            FinishReason::Error,
        ),
        (&["OTHER", "SOMETHING_NEW"], FinishReason::Other),
    ] {
        for reason in reasons {
            assert_eq!(finished(&json!(reason)), Some(read), "{reason}");
        }
    }
    assert_eq!(finished(&json!(1)), Some(FinishReason::Stop));
    assert_eq!(finished(&json!(2)), Some(FinishReason::Length));
    for nothing in [json!(null), json!(""), json!("FINISH_REASON_UNSPECIFIED"), json!(0)] {
        assert_eq!(finished(&nothing), None, "{nothing}");
    }
}

#[test]
fn a_prompt_that_is_blocked_is_an_empty_reply() {
    for body in [
        json!({"promptFeedback": {"blockReason": "SAFETY"}}),
        json!({"candidates": [], "promptFeedback": {"blockReason": "MODEL_ARMOR"}}),
        json!({"candidates": null, "promptFeedback": {"blockReason": "OTHER"}}),
    ] {
        let reply = decoded(&body).unwrap();
        assert_eq!(reply.finish_reason, Some(FinishReason::ContentFilter), "{body}");
        assert_eq!(reply.parts, []);
    }
}

#[test]
fn a_candidate_without_parts_is_an_empty_reply() {
    for candidate in [
        json!({"finishReason": "STOP"}),
        json!({"content": null, "finishReason": "STOP"}),
        json!({"content": {}, "finishReason": "STOP", "index": null}),
        json!({"content": {"role": "model", "parts": null}, "finishReason": "STOP", "index": 0.0}),
    ] {
        let reply = decoded(&json!({"candidates": [candidate]})).unwrap();
        assert_eq!((reply.parts, reply.finish_reason), (vec![], Some(FinishReason::Stop)));
    }
}

#[test]
fn of_several_candidates_the_first_is_read() {
    let candidate =
        |index: u64, text: &str| json!({"index": index, "content": {"parts": [{"text": text}]}});
    let body = json!({"candidates": [candidate(1, "no"), candidate(0, "yes")]});
    assert_eq!(decoded(&body).unwrap().text().as_deref(), Some("yes"));
}

#[test]
fn a_body_that_is_no_reply_is_a_protocol_error() {
    for body in ["", " \n", "<html>", "{}", "null", "3", "{\"candidates\":[]}", "[]x"] {
        let error = GeminiGenerate.decode(Provider::Gemini, body.as_bytes()).unwrap_err();
        assert_eq!((error.kind, error.retryable), (Kind::Protocol, true), "{body}");
    }
    let error = decoded(&json!({"error": {"code": 503, "message": "overloaded"}})).unwrap_err();
    assert_eq!((error.kind, error.retryable), (Kind::Overloaded, true));
}

#[test]
fn tokens_are_counted_with_those_of_tools_and_thinking() {
    let counted = |usage: &Value| {
        let body = json!({"candidates": [{}], "usageMetadata": usage});
        decoded(&body).unwrap().usage
    };
    let all = json!({
        "promptTokenCount": 10, "toolUsePromptTokenCount": 5, "cachedContentTokenCount": 4,
        "candidatesTokenCount": 3.0, "thoughtsTokenCount": 2, "totalTokenCount": 20,
    });
    let usage = Usage { input: 15, output: 5, cache_read: 4, cache_write: 0, reasoning: 2 };
    assert_eq!(counted(&all), Some(usage));
    let asked = Usage { input: 10, ..Usage::default() };
    assert_eq!(counted(&json!({"promptTokenCount": 10})), Some(asked));
    for nothing in [json!(null), json!({}), json!({"trafficType": "ON_DEMAND"})] {
        assert_eq!(counted(&nothing), None);
    }
}

#[test]
fn a_reply_with_parts_without_end_is_refused_for_good() {
    let calls: Vec<Value> = (0..10_001).map(|_| json!({"functionCall": {"name": "f"}})).collect();
    let body = json!({"candidates": [{"content": {"parts": calls}, "finishReason": "STOP"}]});
    let error = decoded(&body).unwrap_err();
    assert_eq!((error.kind, error.retryable), (Kind::Protocol, false));
}
