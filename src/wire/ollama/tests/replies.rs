//! What replies are read as.

use serde_json::{Value, json};

use crate::domain::event::DeltaKind;
use crate::domain::message::{Reply, ReplyPart, ReplyState};
use crate::domain::model::{FinishReason, ModelErrorKind as Kind, Provider, Usage};
use crate::wire::ollama::Ollama;
use crate::wire::{Codec as _, DeltaPiece, WireError};

fn lines(all: &[Value]) -> String {
    all.iter().map(|line| [line.to_string(), "\n".to_owned()].concat()).collect()
}

fn streamed(body: &[u8], size: usize) -> (Vec<DeltaPiece>, Result<Reply, WireError>) {
    let mut decoder = Ollama.stream(Provider::Ollama);
    let mut pieces = Vec::new();
    for chunk in body.chunks(size) {
        match decoder.push(chunk) {
            Ok(more) => pieces.extend(more),
            Err(error) => return (pieces, Err(error)),
        }
    }
    (pieces, decoder.finish())
}

fn end(body: &str) -> Result<Reply, WireError> {
    streamed(body.as_bytes(), 7).1
}

fn message(message: &Value) -> Value {
    json!({"model": "m", "message": message, "done": false})
}

fn done() -> Value {
    json!({"model": "m", "message": {"role": "assistant", "content": ""}, "done": true,
        "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 7})
}

#[test]
fn lines_are_put_together_however_they_are_split() {
    let call = json!({"id": "k", "function": {"name": "f", "arguments": {"b": 1.0, "a": [2]}}});
    let body = lines(&[
        message(&json!({"content": "", "thinking": "h"})),
        message(&json!({"content": "", "thinking": "mé"})),
        message(&json!({"content": "Y"})),
        message(&json!({"content": "es."})),
        message(&json!({"content": "", "tool_calls": [call, {"function": {"name": "g"}}]})),
        done(),
        json!({"error": "what comes after the end does not count"}),
    ]);
    for body in [body.clone(), body.replace('\n', "\r\n\n")] {
        for size in 1..body.len() {
            let (pieces, reply) = streamed(body.as_bytes(), size);
            let reply = reply.unwrap();
            let [
                ReplyPart::Thinking(thinking),
                ReplyPart::Text(said),
                ReplyPart::ToolCall(one),
                ReplyPart::ToolCall(two),
            ] = &reply.parts[..]
            else {
                panic!("{reply:?}")
            };
            assert_eq!((thinking.text.as_str(), said.text.as_str()), ("hmé", "Yes."));
            assert_eq!((one.name.as_str(), one.arguments.as_str()), ("f", "{\"b\":1.0,\"a\":[2]}"));
            assert_eq!(
                (one.provider_call_id.as_deref(), two.arguments.as_str()),
                (Some("k"), "{}")
            );
            assert_eq!(reply.finish_reason, Some(FinishReason::ToolCalls));
            assert_eq!(reply.usage, Some(Usage { input: 5, output: 7, ..Usage::default() }));
            assert_eq!(reply.state, ReplyState::Complete);
            let kinds: Vec<_> = pieces.iter().map(|piece| piece.kind).collect();
            assert_eq!(kinds.iter().filter(|kind| **kind == DeltaKind::Text).count(), 2);
        }
    }
}

#[test]
fn a_stream_is_a_reply_only_after_a_line_that_says_it_is_done() {
    let half = lines(&[message(&json!({"content": "Ha"}))]);
    let kind = |body: &str| end(body).map(|reply| reply.text()).map_err(|error| error.kind);
    assert_eq!(kind(&half), Err(Kind::TruncatedStream));
    assert_eq!(kind(""), Err(Kind::TruncatedStream));
    assert_eq!(kind(&format!("{half}{{\"mess")), Err(Kind::TruncatedStream));
    assert_eq!(kind(&format!("{half}{}", done())), Ok(Some("Ha".to_owned())));
    assert_eq!(kind("<html>no</html>"), Err(Kind::Protocol));
    assert_eq!(kind(&format!("{half}nonsense\n")), Err(Kind::Protocol));
}

#[test]
fn an_error_may_come_in_the_middle() {
    let body = lines(&[message(&json!({"content": "Ha"})), json!({"error": "it broke"})]);
    let mut decoder = Ollama.stream(Provider::Ollama);
    assert_eq!(decoder.push(body.as_bytes()).map(|told| told.len()), Ok(1));
    let partial = decoder.partial();
    let error = decoder.finish().unwrap_err();
    assert_eq!((error.kind, error.detail.as_str()), (Kind::Server, "it broke"));
    assert_eq!((partial.text().as_deref(), partial.state), (Some("Ha"), ReplyState::Interrupted));
}

fn whole(body: &Value) -> Result<Reply, WireError> {
    Ollama.decode(Provider::Ollama, body.to_string().as_bytes())
}

#[test]
fn a_whole_reply_is_read_like_its_lines() {
    let mut body = done();
    body["message"] = json!({"content": "<think>hm</think>\nYes.", "images": ["AA=="]});
    body["done_reason"] = json!("length");
    body.as_object_mut().unwrap().shift_remove("prompt_eval_count");
    let reply = whole(&body).unwrap();
    assert_eq!(
        (reply.text().as_deref(), reply.finish_reason),
        (Some("Yes."), Some(FinishReason::Length))
    );
    assert_eq!(reply.usage, Some(Usage { output: 7, ..Usage::default() }));
    assert_eq!(reply.parts.len(), 3);
    for nothing in [json!({}), json!([]), json!(null), json!({"model": "m"})] {
        assert_eq!(whole(&nothing).unwrap_err().kind, Kind::Protocol, "{nothing}");
    }
    let load = json!({"model": "m", "done": true, "done_reason": "load"});
    let reply = whole(&load).unwrap();
    assert_eq!((reply.finish_reason, reply.usage), (Some(FinishReason::Other), None));
}

#[test]
fn calls_without_end_are_refused_for_good() {
    let calls: Vec<Value> = (0..2_000).map(|_| json!({"function": {"name": "f"}})).collect();
    let error = whole(&json!({"message": {"tool_calls": calls}, "done": true})).unwrap_err();
    assert_eq!((error.kind, error.retryable), (Kind::Protocol, false));
}
