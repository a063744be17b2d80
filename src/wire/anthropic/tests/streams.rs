//! What streamed replies are read as.

use serde_json::{Value, json};

use super::replies::parts;
use crate::domain::event::DeltaKind;
use crate::domain::message::{Reply, ReplyState};
use crate::domain::model::{FinishReason, ModelErrorKind, Provider, Usage};
use crate::wire::anthropic::AnthropicMessages;
use crate::wire::{Codec as _, DeltaPiece, WireError};

fn events(events: &[Value]) -> String {
    let event = |event: &Value| {
        let name = event["type"].as_str().unwrap_or_default();
        format!("event: {name}\ndata: {event}   \n\n")
    };
    events.iter().map(event).collect()
}

fn read<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<DeltaPiece>, Result<Reply, WireError>) {
    let mut decoder = AnthropicMessages.stream(Provider::Anthropic);
    let mut pieces = Vec::new();
    for chunk in chunks {
        match decoder.push(chunk) {
            Ok(more) => pieces.extend(more),
            Err(error) => return (pieces, Err(error)),
        }
    }
    (pieces, decoder.finish())
}

fn streamed(list: &[Value]) -> Reply {
    read([events(list).as_bytes()]).1.unwrap()
}

fn start() -> Value {
    json!({"type": "message_start", "message": {
        "id": "m", "model": "c", "content": [], "stop_reason": null,
        "usage": {"input_tokens": 3, "cache_read_input_tokens": 1, "output_tokens": 1},
    }})
}

fn begin(index: u64, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn text(index: u64, text: &str) -> Value {
    delta(index, &json!({"type": "text_delta", "text": text}))
}

fn input(index: u64, json: &str) -> Value {
    delta(index, &json!({"type": "input_json_delta", "partial_json": json}))
}

fn end(reason: &str, usage: &Value) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage})
}

fn stop() -> Value {
    json!({"type": "message_stop"})
}

fn everything() -> Vec<Value> {
    vec![
        json!({"type": "ping"}),
        start(),
        begin(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "h"})),
        delta(0, &json!({"type": "thinking_delta", "thinking": "é"})),
        delta(0, &json!({"type": "signature_delta", "signature": "s"})),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "something_new", "index": 0, "delta": {"type": "text_delta", "text": "x"}}),
        begin(1, &json!({"type": "text", "text": ""})),
        text(1, "a"),
        delta(1, &json!({"type": "citations_delta", "citation": {"cited_text": "d"}})),
        delta(1, &json!({"type": "new_delta", "text": "x"})),
        begin(2, &json!({"type": "server_tool_use", "id": "x", "name": "w", "input": {}})),
        input(2, ""),
        input(2, "{\"q\":"),
        json!({"type": "ping"}),
        input(2, "1}"),
        begin(3, &json!({"type": "compaction", "content": null})),
        delta(3, &json!({"type": "compaction_delta", "content": "sh"})),
        delta(3, &json!({"type": "compaction_delta", "content": "ort"})),
        begin(4, &json!({"type": "tool_use", "id": "t", "name": "f", "input": {}})),
        begin(5, &json!({"type": "tool_use", "id": "u", "name": "g", "input": {}})),
        input(5, "{\"b\""),
        input(4, "{\"a\": 1.0"),
        input(5, ":2}"),
        input(4, "}"),
        begin(6, &json!({"type": "redacted_thinking", "data": "r"})),
        end("tool_use", &json!({"output_tokens": 9, "input_tokens": null})),
        stop(),
    ]
}

#[test]
fn every_event_adds_to_the_reply() {
    let (pieces, reply) = read([events(&everything()).as_bytes()]);
    let reply = reply.unwrap();
    let unknown = |raw: Value| json!({"part_kind": "unknown", "issuer": "anthropic", "raw": raw});
    let call = |n: u8, id: &str, name: &str, arguments: &str| {
        json!({
            "part_kind": "tool_call",
            "tool_call_id": format!("call_{n}"),
            "provider_call_id": id,
            "name": name,
            "arguments": arguments,
        })
    };
    let expected = json!([
        {"part_kind": "thinking", "text": "hé", "signature": "s", "issuer": "anthropic"},
        {"part_kind": "text", "text": "a", "echo": {"citations": [{"cited_text": "d"}]}},
        unknown(json!({"type": "server_tool_use", "id": "x", "name": "w", "input": {"q": 1}})),
        unknown(json!({"type": "compaction", "content": "short"})),
        call(1, "t", "f", "{\"a\": 1.0}"),
        call(2, "u", "g", "{\"b\":2}"),
        {"part_kind": "redacted_thinking", "data": "r", "issuer": "anthropic"},
    ]);
    assert_eq!(parts(&reply), expected);
    assert_eq!(reply.finish_reason, Some(FinishReason::ToolCalls));
    let usage = Usage { input: 4, output: 9, cache_read: 1, cache_write: 0, reasoning: 0 };
    assert_eq!(reply.usage, Some(usage));
    let told: Vec<_> = pieces.iter().map(|piece| (piece.kind, piece.text.as_str())).collect();
    let expected = [
        (DeltaKind::Thinking, "h"),
        (DeltaKind::Thinking, "é"),
        (DeltaKind::Text, "a"),
        (DeltaKind::ToolCall, "{\"b\""),
        (DeltaKind::ToolCall, "{\"a\": 1.0"),
        (DeltaKind::ToolCall, ":2}"),
        (DeltaKind::ToolCall, "}"),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_stream_reads_the_same_wherever_it_is_split_and_however_its_lines_end() {
    let body = events(&everything());
    let whole = read([body.as_bytes()]);
    for at in 0..body.len() {
        let (head, tail) = body.as_bytes().split_at(at);
        assert_eq!(read([head, tail]), whole, "at {at}");
    }
    assert_eq!(read(body.as_bytes().chunks(1)), whole);
    for line_end in ["\r\n", "\r"] {
        assert_eq!(read([body.replace('\n', line_end).as_bytes()]), whole);
    }
}

#[test]
fn a_stream_is_cut_off_before_a_stop_reason_and_whole_behind_it() {
    let list = everything();
    let whole = streamed(&list);
    for n in 0..list.len() - 2 {
        let (_, reply) = read([events(&list[..n]).as_bytes()]);
        assert_eq!(reply.unwrap_err().kind, ModelErrorKind::TruncatedStream, "{n}");
    }
    assert_eq!(streamed(&list[..list.len() - 1]), whole);
    let done = events(&list[..4]) + "data: [DONE]\n\n";
    assert_eq!(read([done.as_bytes()]).1.unwrap_err().kind, ModelErrorKind::TruncatedStream);
}

#[test]
fn nothing_after_the_end_counts() {
    let body = events(&everything());
    let whole = read([body.as_bytes()]);
    for more in ["data: [DONE]\n\n", "data: {\"error\":{}}\n\n", "data: no json\n\n"] {
        assert_eq!(read([(body.clone() + more).as_bytes()]), whole);
        assert_eq!(read([body.as_bytes(), more.as_bytes()]), whole);
    }
    let early = events(&everything()[..28]) + "data: [DONE]\n\n";
    assert_eq!(read([early.as_bytes()]), whole);
}

#[test]
fn what_has_come_is_an_interrupted_reply() {
    let mut decoder = AnthropicMessages.stream(Provider::Anthropic);
    let call = begin(1, &json!({"type": "tool_use", "id": "t", "name": "f", "input": {}}));
    let body = events(&[start(), text(0, "a"), call, input(1, "{\"a\": tr")]);
    decoder.push(body.as_bytes()).unwrap();
    assert!(!decoder.is_complete() && !decoder.is_done());
    let reply = decoder.partial();
    assert_eq!(reply.state, ReplyState::Interrupted);
    assert_eq!(parts(&reply)[0], json!({"part_kind": "text", "text": "a"}));
    assert_eq!(parts(&reply)[1]["arguments"], "{\"a\": tr");
}

#[test]
fn a_call_without_arguments_has_none() {
    for pieces in [vec![], vec![""], vec!["", " "], vec!["null"], vec!["{}"]] {
        let begun = begin(0, &json!({"type": "tool_use", "id": "t", "name": "f", "input": {}}));
        let pieces = pieces.iter().map(|piece| input(0, piece));
        let list: Vec<_> = [start(), begun]
            .into_iter()
            .chain(pieces)
            .chain([end("tool_use", &json!({}))])
            .collect();
        assert_eq!(streamed(&list).tool_calls().next().unwrap().arguments, "{}", "{list:?}");
    }
    let begun = begin(0, &json!({"type": "tool_use", "name": "f", "input": {"a": 1}}));
    let reply = streamed(&[start(), begun, end("end_turn", &json!({}))]);
    assert_eq!(reply.tool_calls().next().unwrap().arguments, "{\"a\":1}");
    assert_eq!(reply.finish_reason, Some(FinishReason::ToolCalls));
}

#[test]
fn blocks_that_nothing_announced_and_indexes_that_are_absent_are_read() {
    let unnumbered = |mut event: Value| {
        event.as_object_mut().unwrap().remove("index");
        event
    };
    let list = [
        start(),
        text(0, "a"),
        text(0, "b"),
        delta(1, &json!({"type": "thinking_delta", "thinking": "h"})),
        unnumbered(begin(0, &json!({"type": "tool_use", "name": "f"}))),
        unnumbered(input(0, "{\"a\":1}")),
        // A server that numbers every block alike begins another one each time.
        begin(0, &json!({"type": "text", "text": "c"})),
        text(0, "d"),
        json!({"type": "content_block_start", "index": 9, "content_block": null}),
        json!({"type": "content_block_delta", "index": 0, "delta": null}),
        end("end_turn", &Value::Null),
    ];
    let reply = streamed(&list);
    let told = parts(&reply);
    assert_eq!(told[0]["text"], "ab");
    assert_eq!(told[1]["text"], "h");
    assert_eq!(told[2]["arguments"], "{\"a\":1}");
    assert_eq!(told[3]["text"], "cd");
    assert_eq!(told.as_array().unwrap().len(), 4);
}

#[test]
fn counts_that_come_again_replace_the_ones_before_and_null_does_not() {
    let reply = streamed(&[
        start(),
        end("end_turn", &json!({"output_tokens": 5})),
        end("", &json!({"output_tokens": 7, "input_tokens": null, "cache_read_input_tokens": 2})),
        end("end_turn", &Value::Null),
        stop(),
    ]);
    let usage = Usage { input: 5, output: 7, cache_read: 2, cache_write: 0, reasoning: 0 };
    assert_eq!(reply.usage, Some(usage));
    assert_eq!(reply.finish_reason, Some(FinishReason::Stop));
}

#[test]
fn events_are_known_by_their_name_where_the_data_does_not_say() {
    let body = concat!(
        "event: message_start\ndata: {\"message\":{\"content\":[]}}\n\n",
        "event: content_block_delta\ndata: {\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n",
        "event: message_stop\ndata: {}\n\n",
    );
    let reply = read([body.as_bytes()]).1.unwrap();
    assert_eq!(parts(&reply), json!([{"part_kind": "text", "text": "a"}]));
}

#[test]
fn a_whole_message_in_place_of_events_is_read() {
    let message = json!({"type": "message", "content": [{"type": "text", "text": "a"}]});
    let expected = json!([{"part_kind": "text", "text": "a"}]);
    for body in [message.to_string(), events(std::slice::from_ref(&message))] {
        assert_eq!(parts(&read([body.as_bytes()]).1.unwrap()), expected, "{body}");
    }
}
