//! What replies are read as.

use serde_json::{Value, json};

use crate::domain::event::DeltaKind;
use crate::domain::message::{Reply, ReplyPart, ReplyState};
use crate::domain::model::{FinishReason, ModelError, ModelErrorKind, Provider, Usage};
use crate::wire::{self, DeltaPiece, StreamDecoder};

const RESPONSES: Provider = Provider::OpenaiResponses;

fn whole(output: &Value) -> Reply {
    let body = json!({"id": "r", "model": "m", "status": "completed", "output": output});
    wire::decode(RESPONSES, body.to_string().as_bytes()).unwrap()
}

fn read(events: &[Value]) -> (Vec<DeltaPiece>, Result<Reply, ModelError>) {
    let mut decoder = StreamDecoder::new(RESPONSES);
    let mut pieces = Vec::new();
    for event in events {
        pieces.extend(decoder.push(format!("data: {event}\n\n").as_bytes()).unwrap());
    }
    (pieces, decoder.finish())
}

fn streamed(events: &[Value]) -> (Vec<DeltaPiece>, Reply) {
    let end = json!({"type": "response.completed",
        "response": {"status": "completed", "output": [], "usage": {"input_tokens": 1}}});
    let (pieces, reply) = read(&[events, &[end]].concat());
    (pieces, reply.unwrap())
}

fn added(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn delta(of: &str, index: u64, piece: &str) -> Value {
    json!({"type": format!("response.{of}.delta"), "output_index": index, "delta": piece})
}

fn function_call(id: &str, name: &str, arguments: &Value) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
        "arguments": arguments, "status": "completed"})
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

fn told(pieces: &[DeltaPiece]) -> Vec<(DeltaKind, &str)> {
    pieces.iter().map(|piece| (piece.kind, piece.text.as_str())).collect()
}

fn kinds(reply: &Reply) -> Vec<String> {
    let kind = |part: &ReplyPart| serde_json::to_value(part).unwrap()["part_kind"].to_string();
    reply.parts.iter().map(kind).collect()
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": null, "logprobs": []}]})
}

#[test]
fn items_become_parts_in_order_and_keep_what_their_issuer_wants_back() {
    let reply = whole(&json!([
        {"type": "reasoning", "id": "rs", "status": "completed", "encrypted_content": "s",
            "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]},
        {"type": "message", "id": "msg", "status": "completed", "role": "assistant",
            "phase": "commentary", "content": [
                {"type": "output_text", "text": "a", "annotations": [{"n": 1}], "logprobs": [1]},
                {"type": "output_text", "text": "b", "annotations": []}]},
        {"type": "web_search_call", "id": "ws"},
        {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": "{}",
            "namespace": "n", "status": "completed"},
    ]));
    let thinking = |text: &str, signature: Option<&str>| {
        let mut part = json!({"part_kind": "thinking", "text": text, "id": "rs",
            "issuer": "openai_responses"});
        if let Some(signature) = signature {
            part["signature"] = json!(signature);
        }
        part
    };
    let expected = json!([
        thinking("one", Some("s")),
        thinking("two", None),
        {"part_kind": "text", "text": "a",
            "echo": {"id": "msg", "phase": "commentary", "annotations": [{"n": 1}]}},
        {"part_kind": "text", "text": "b", "echo": {"id": "msg"}},
        {"part_kind": "unknown", "issuer": "openai_responses",
            "raw": {"type": "web_search_call", "id": "ws"}},
        {"part_kind": "tool_call", "tool_call_id": "call_1", "provider_call_id": "c", "name": "f",
            "arguments": "{}", "echo": {"id": "fc", "namespace": "n"}},
    ]);
    assert_eq!(serde_json::to_value(&reply.parts).unwrap(), expected);
    assert_eq!(reply.finish_reason, Some(FinishReason::ToolCalls));
    assert_eq!((reply.model.as_deref(), reply.response_id.as_deref()), (Some("m"), Some("r")));
}

#[test]
fn reasoning_may_be_open_sealed_or_both() {
    let raw = json!([{"type": "reasoning_text", "text": "raw"}]);
    let thoughts = |item: Value| {
        let reply = whole(&json!([item]));
        let part = serde_json::to_value(&reply.parts[0]).unwrap();
        (part["text"].clone(), part["signature"].clone(), part["echo"].clone())
    };
    let open = json!({"type": "reasoning", "summary": [], "content": raw});
    assert_eq!(thoughts(open), (json!("raw"), Value::Null, json!({"content": true})));
    let sealed = json!({"type": "reasoning", "encrypted_content": "s", "format": "g"});
    assert_eq!(thoughts(sealed), (json!(""), json!("s"), json!({"format": "g"})));
    let summary = json!([{"type": "summary_text", "text": "sum"}]);
    let both = json!({"type": "reasoning", "summary": summary, "content": raw});
    assert_eq!(thoughts(both), (json!("sum"), Value::Null, json!({"content": raw})));
    assert_eq!(whole(&json!([{"type": "reasoning", "summary": []}])).parts, []);
}

#[test]
fn calls_get_positional_ids_and_readable_arguments() {
    let reply = whole(&json!([
        function_call("a", "one", &json!("{\"b\": 1.0,  \"a\": 1}")),
        function_call("a", "two", &json!({"k": [1]})),
        function_call("", "three", &json!("")),
        function_call("b", "four", &json!("null")),
        {"call_id": "c", "name": "five", "arguments": null},
        function_call("d", "six", &json!("{\"cut")),
        function_call("e", "", &json!("")),
    ]));
    assert_eq!(
        calls(&reply),
        [
            ("call_1", Some("a"), "one", "{\"b\": 1.0,  \"a\": 1}"),
            ("call_2", None, "two", "{\"k\":[1]}"),
            ("call_3", None, "three", "{}"),
            ("call_4", Some("b"), "four", "{}"),
            ("call_5", Some("c"), "five", "{}"),
            ("call_6", Some("d"), "six", "{\"cut"),
        ]
    );
}

#[test]
fn the_status_says_why_it_ended_but_calls_and_refusals_say_more() {
    let reason = |rest: Value, output: Value| {
        let mut body = json!({"output": output});
        body.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        wire::decode(RESPONSES, body.to_string().as_bytes()).unwrap().finish_reason.unwrap()
    };
    let call = json!([function_call("a", "f", &json!("{}"))]);
    let cut =
        |reason: &str| json!({"status": "incomplete", "incomplete_details": {"reason": reason}});
    let refusal = json!([{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]);
    let said = json!([message("x")]);
    let completed = json!({"status": "completed"});
    for (rest, output, expected) in [
        (completed.clone(), said.clone(), FinishReason::Stop),
        (json!({}), said.clone(), FinishReason::Stop),
        (completed.clone(), call.clone(), FinishReason::ToolCalls),
        (cut("max_output_tokens"), call, FinishReason::Length),
        (cut("content_filter"), said.clone(), FinishReason::ContentFilter),
        (cut("mystery"), said.clone(), FinishReason::Other),
        (json!({"status": "incomplete"}), said, FinishReason::Other),
        (completed, refusal, FinishReason::ContentFilter),
    ] {
        assert_eq!(reason(rest.clone(), output), expected, "{rest}");
    }
}

#[test]
fn counts_include_what_was_cached_and_thought() {
    let body = json!({"status": "completed", "output": [], "usage": {
        "input_tokens": 9, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens": 7.0, "output_tokens_details": {"reasoning_tokens": 3}}});
    let reply = wire::decode(RESPONSES, body.to_string().as_bytes()).unwrap();
    let expected = Usage { input: 9, output: 7, cache_read: 4, cache_write: 2, reasoning: 3 };
    assert_eq!(reply.usage, Some(expected));
    assert_eq!(whole(&json!([])).usage, None);
}

#[test]
fn pieces_are_told_as_they_come_and_the_item_as_a_whole_counts() {
    let header = json!({"type": "message", "id": "msg", "role": "assistant", "content": []});
    let (pieces, reply) = streamed(&[
        json!({"type": "response.created", "response": {"id": "r", "model": "m", "output": []}}),
        added(0, &json!({"type": "reasoning", "id": "rs", "summary": []})),
        delta("reasoning_summary_text", 0, "h"),
        delta("reasoning_summary_text", 0, "m"),
        json!({"type": "keepalive", "sequence_number": 3}),
        done(
            0,
            &json!({"type": "reasoning", "id": "rs", "encrypted_content": "s",
            "summary": [{"type": "summary_text", "text": "hm"}]}),
        ),
        added(1, &header),
        delta("output_text", 1, "a"),
        delta("output_text", 1, ""),
        done(1, &message("ab")),
        added(2, &function_call("c", "f", &json!(""))),
        delta("function_call_arguments", 2, "{}"),
        done(2, &function_call("c", "f", &json!("{}"))),
    ]);
    assert_eq!(
        told(&pieces),
        [
            (DeltaKind::Thinking, "h"),
            (DeltaKind::Thinking, "m"),
            (DeltaKind::Text, "a"),
            (DeltaKind::ToolCall, "{}"),
        ]
    );
    assert_eq!(kinds(&reply), ["\"thinking\"", "\"text\"", "\"tool_call\""]);
    assert_eq!(reply.text().as_deref(), Some("ab"));
    assert_eq!(reply.usage.unwrap().input, 1);
    assert_eq!((reply.model.as_deref(), reply.state), (Some("m"), ReplyState::Complete));
}

#[test]
fn an_item_may_come_in_one_of_its_forms_only() {
    let expected = [("call_1", Some("c"), "f", "{\"a\":1}")];
    let header = || function_call("c", "f", &json!(""));
    let full = || function_call("c", "f", &json!("{\"a\":1}"));
    let at_once = json!({"type": "response.function_call_arguments.done", "output_index": 0,
        "arguments": "{\"a\":1}"});
    for events in [
        vec![added(0, &header()), delta("function_call_arguments", 0, "{\"a\":1}")],
        vec![added(0, &header()), at_once.clone()],
        vec![added(0, &header()), at_once, done(0, &header())],
        vec![added(0, &header()), done(0, &full())],
        vec![done(0, &full())],
        vec![done(0, &full()), done(0, &full())],
        vec![added(0, &header()), done(0, &json!({"arguments": "{\"a\":1}"}))],
    ] {
        let (pieces, reply) = streamed(&events);
        assert_eq!(calls(&reply), expected, "{events:?}");
        assert_eq!(told(&pieces), [(DeltaKind::ToolCall, "{\"a\":1}")], "{events:?}");
    }
    let end = json!({"type": "response.completed",
        "response": {"status": "completed", "output": [message("x"), full()]}});
    let (_, reply) = read(&[added(0, &json!({"type": "message"})), end]);
    let reply = reply.unwrap();
    assert_eq!((calls(&reply), reply.text().as_deref()), (expected.to_vec(), Some("x")));
}

#[test]
fn text_that_only_its_pieces_have_is_kept() {
    let (_, reply) = streamed(&[
        delta("reasoning_text", 0, "why"),
        delta("output_text", 1, "a"),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 1,
            "delta": "b"}),
        done(1, &json!({"type": "message", "id": "msg", "content": []})),
        delta("refusal", 2, "no"),
    ]);
    assert_eq!(kinds(&reply), ["\"thinking\"", "\"text\"", "\"text\"", "\"refusal\""]);
    assert_eq!((reply.text().as_deref(), reply.refusal().as_deref()), (Some("ab"), Some("no")));
}

#[test]
fn items_are_told_apart_whatever_their_indexes_and_ids_are() {
    let call = |id: &str| function_call(id, "f", &json!("{}"));
    let piece = |id: &str, index: Value, piece: &str| {
        json!({"type": "response.function_call_arguments.delta", "item_id": id,
            "output_index": index, "delta": piece})
    };
    let named = |event: &Value, index: Value| {
        let mut event = event.clone();
        event["output_index"] = index;
        event
    };
    let header = |id: &str| added(0, &function_call(id, "f", &json!("")));
    let expected = [("call_1", Some("a"), "f", "{}"), ("call_2", Some("b"), "f", "{}")];
    for (what, events) in [
        (
            "every index the same",
            vec![
                header("a"),
                header("b"),
                piece("fc_b", json!(0), "{"),
                piece("fc_a", json!(0), "{"),
                piece("fc_a", json!(0), "}"),
                piece("fc_b", json!(0), "}"),
            ],
        ),
        (
            "every index the same, one after the other",
            vec![header("a"), done(0, &call("a")), header("b"), done(0, &call("b"))],
        ),
        (
            "no index",
            vec![
                named(&header("a"), Value::Null),
                piece("fc_a", Value::Null, "{}"),
                named(&header("b"), Value::Null),
                piece("fc_b", Value::Null, "{}"),
            ],
        ),
        (
            "another id in every event",
            vec![
                named(&header("a"), json!(3)),
                named(&header("b"), json!(4)),
                piece("x", json!(3), "{}"),
                piece("y", json!(4), "{}"),
            ],
        ),
        ("out of order", vec![done(7, &call("b")), done(2, &call("a"))]),
    ] {
        assert_eq!(calls(&streamed(&events).1), expected, "{what}");
    }
}

#[test]
fn a_stream_is_a_reply_only_after_its_end() {
    let piece = delta("output_text", 0, "x");
    let kind =
        |events: &[Value]| read(events).1.map_err(|error| error.kind).map(|reply| reply.text());
    let end = |kind: &str| json!({"type": kind, "response": {}});
    let said = Ok(Some("x".to_owned()));
    assert_eq!(kind(&[]), Err(ModelErrorKind::TruncatedStream));
    assert_eq!(kind(std::slice::from_ref(&piece)), Err(ModelErrorKind::TruncatedStream));
    for (ended, expected) in [
        ("response.completed", &said),
        ("response.incomplete", &said),
        ("response.done", &said),
        ("response.in_progress", &Err(ModelErrorKind::TruncatedStream)),
    ] {
        assert_eq!(&kind(&[piece.clone(), end(ended)]), expected, "{ended}");
    }
    let mut decoder = StreamDecoder::new(RESPONSES);
    decoder.push(format!("data: {piece}\n\ndata: [DONE]\n\n").as_bytes()).unwrap();
    assert!(decoder.is_done() && !decoder.is_complete());
    assert_eq!(decoder.finish().unwrap_err().kind, ModelErrorKind::TruncatedStream);
}

#[test]
fn events_are_known_by_their_name_where_they_do_not_say_it_themselves() {
    let mut decoder = StreamDecoder::new(RESPONSES);
    let piece = b"event: response.output_text.delta\ndata: {\"delta\":\"x\"}\n\n";
    assert_eq!(decoder.push(piece).unwrap()[0].text, "x");
    decoder.push(b"event: response.completed\ndata: {}\n\nevent: response.failed\n").unwrap();
    assert!(decoder.is_complete());
    assert_eq!(decoder.finish().unwrap().text().as_deref(), Some("x"));
}

#[test]
fn what_has_come_of_a_broken_stream_is_an_interrupted_reply() {
    let mut decoder = StreamDecoder::new(RESPONSES);
    for event in [
        added(0, &json!({"type": "web_search_call", "id": "ws", "status": "in_progress"})),
        added(1, &json!({"type": "message", "id": "msg"})),
        delta("output_text", 1, "half"),
    ] {
        decoder.push(format!("data: {event}\n\n").as_bytes()).unwrap();
    }
    let failed = json!({"type": "response.failed", "response": {"output": [],
        "usage": {"output_tokens": 3}, "error": {"code": "server_error"}}});
    decoder.push(format!("data: {failed}\n\n").as_bytes()).unwrap_err();
    let partial = decoder.partial();
    assert_eq!((partial.state, partial.text().as_deref()), (ReplyState::Interrupted, Some("half")));
    assert_eq!((kinds(&partial), partial.usage.unwrap().output), (vec!["\"text\"".to_owned()], 3));
}

#[test]
fn a_body_without_events_on_a_stream_is_read_as_json() {
    let mut decoder = StreamDecoder::new(RESPONSES);
    let body = json!({"status": "completed", "output": [message("hi")]}).to_string();
    decoder.push(body.as_bytes()).unwrap();
    assert_eq!(decoder.finish().unwrap().text().as_deref(), Some("hi"));
}

#[test]
fn parts_and_items_without_words_here_are_kept() {
    let part = json!({"type": "output_audio", "data": "x"});
    let reply = whole(&json!([
        {"type": "message", "id": "msg", "content": [part, {"type": "text", "text": "t"}]},
        {"type": "message", "content": "plain"},
        {"type": "mystery", "x": 1},
        "noise",
        null,
    ]));
    let raws: Vec<&Value> = reply
        .parts
        .iter()
        .filter_map(|part| if let ReplyPart::Unknown(part) = part { Some(&part.raw) } else { None })
        .collect();
    let message = json!({"type": "message", "role": "assistant", "content": [part]});
    assert_eq!(raws, [&message, &json!({"type": "mystery", "x": 1})]);
    assert_eq!(reply.text().as_deref(), Some("tplain"));
}

#[test]
fn nul_characters_are_replaced_everywhere() {
    let reply = whole(&json!([
        message("a\0"),
        {"type": "reasoning", "id": "r\0", "summary": [{"text": "\0"}], "encrypted_content": "\0"},
        {"type": "message", "content": [{"type": "refusal", "refusal": "\0"}]},
        function_call("i\0", "f\0", &json!("{\0}")),
    ]));
    let texts: Vec<String> = reply
        .parts
        .iter()
        .map(|part| {
            let mut part = serde_json::to_value(part).unwrap();
            part.as_object_mut().unwrap().remove("echo");
            part.to_string()
        })
        .collect();
    assert!(!texts.concat().contains("\\u0000"), "{texts:?}");
    assert_eq!(texts.concat().matches('\u{FFFD}').count(), 8, "{texts:?}");
}

#[test]
fn a_reply_with_items_without_end_is_refused_for_good() {
    let items: Vec<Value> = (0..10_001).map(|_| json!({"type": "mystery"})).collect();
    let body = json!({"status": "completed", "output": items}).to_string();
    let error = wire::decode(RESPONSES, body.as_bytes()).unwrap_err();
    assert_eq!((error.kind, error.retryable), (ModelErrorKind::Protocol, false));
    let mut decoder = StreamDecoder::new(RESPONSES);
    let event = |n: u64| format!("data: {}\n\n", done(n, &json!({"type": "mystery"})));
    let error = (0..).find_map(|n| decoder.push(event(n).as_bytes()).err()).unwrap();
    assert_eq!((error.kind, error.retryable), (ModelErrorKind::Protocol, false));
}
