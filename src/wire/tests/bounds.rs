//! What every wire's decoder holds to alike: bounds, and what is told ahead of an error.

use serde_json::{Value, json};

use crate::domain::event::DeltaKind;
use crate::domain::model::{ModelErrorKind, Provider};
use crate::wire::{self, StreamDecoder};

/// A whole reply of so many calls.
fn calling(provider: Provider, n_calls: usize) -> Value {
    let calls = |one: &dyn Fn(usize) -> Value| (0..n_calls).map(one).collect::<Vec<_>>();
    match provider {
        Provider::Anthropic => json!({"stop_reason": "tool_use", "content": calls(&|n| {
            json!({"type": "tool_use", "id": format!("c{n}"), "name": "f", "input": {}})
        })}),
        Provider::Bedrock => json!({"stopReason": "tool_use", "output": {"message": {"content":
            calls(&|n| json!({"toolUse": {"toolUseId": format!("c{n}"), "name": "f", "input": {}}}))
        }}}),
        Provider::Gemini => json!({"candidates": [{"finishReason": "STOP", "content": {"parts":
            calls(&|_| json!({"functionCall": {"name": "f", "args": {}}}))
        }}]}),
        Provider::OpenaiResponses => json!({"status": "completed", "output": calls(&|n| {
            json!({"type": "function_call", "call_id": format!("c{n}"), "name": "f", "arguments": "{}"})
        })}),
        Provider::Ollama => json!({"done": true, "done_reason": "stop", "message": {"tool_calls":
            calls(&|_| json!({"function": {"name": "f", "arguments": {}}}))
        }}),
        Provider::Scripted
        | Provider::Openai
        | Provider::Vertex
        | Provider::Openrouter
        | Provider::Xai
        | Provider::Mistral
        | Provider::Groq
        | Provider::Deepseek
        | Provider::Azure => {
            json!({"choices": [{"finish_reason": "tool_calls", "message": {"tool_calls":
                calls(&|n| json!({"id": format!("c{n}"), "function": {"name": "f", "arguments": "{}"}}))
            }}]})
        }
    }
}

#[test]
fn a_reply_of_more_than_a_thousand_calls_is_refused_on_every_wire() {
    for provider in [
        Provider::Openai,
        Provider::OpenaiResponses,
        Provider::Anthropic,
        Provider::Gemini,
        Provider::Bedrock,
        Provider::Ollama,
    ] {
        let read = |n| wire::decode(provider, calling(provider, n).to_string().as_bytes());
        assert_eq!(read(1_000).map(|reply| reply.parts.len()), Ok(1_000), "{provider:?}");
        let error = read(1_001).unwrap_err();
        assert_eq!(
            (error.kind, error.retryable),
            (ModelErrorKind::Protocol, false),
            "{provider:?}"
        );
    }
}

#[test]
fn a_stream_of_more_than_a_thousand_calls_ends_early() {
    let event = |n: usize| {
        let block = json!({"type": "tool_use", "id": format!("c{n}"), "name": "f", "input": {}});
        let start = json!({"type": "content_block_start", "index": n, "content_block": block});
        format!("data: {start}\n\n")
    };
    let mut decoder = StreamDecoder::new(Provider::Anthropic);
    let failed = (0..2_000).find(|n| decoder.push(event(*n).as_bytes()).is_err());
    assert_eq!(failed, Some(1_000));
}

#[test]
fn a_long_document_in_place_of_a_stream_is_read_whole() {
    let long = "a".repeat(9 * 1024 * 1024);
    let parts = json!([{"text": long}]);
    for (provider, body) in [
        (
            Provider::Anthropic,
            json!({"stop_reason": "end_turn", "content": [{"type": "text", "text": long}]}),
        ),
        (
            Provider::Bedrock,
            json!({"stopReason": "end_turn", "output": {"message": {"content": parts}}}),
        ),
        (
            Provider::Gemini,
            json!([{"candidates": [{"finishReason": "STOP", "content": {"parts": parts}}]}]),
        ),
    ] {
        let mut decoder = StreamDecoder::new(provider);
        for piece in format!("\n{body}").as_bytes().chunks(1024 * 1024) {
            assert_eq!(decoder.push(piece), Ok(Vec::new()), "{provider:?}");
        }
        let reply = decoder.finish().unwrap();
        assert_eq!(reply.text().map(|text| text.len()), Some(long.len()), "{provider:?}");
    }
}

#[test]
fn what_came_ahead_of_an_error_in_the_same_read_is_told() {
    let chunk = json!({"choices": [{"delta": {"content": "hi"}}]});
    let error = json!({"error": {"message": "overloaded", "code": 503}});
    let line = json!({"message": {"content": "hi"}});
    for (provider, body) in [
        (Provider::Openai, format!("data: {chunk}\n\ndata: {error}\n\n")),
        (Provider::Ollama, format!("{line}\n{}\n", json!({"error": "overloaded"}))),
    ] {
        let mut decoder = StreamDecoder::new(provider);
        let told = decoder.push(body.as_bytes()).unwrap();
        let told: Vec<_> = told.iter().map(|piece| (piece.kind, piece.text.as_str())).collect();
        assert_eq!(told, [(DeltaKind::Text, "hi")], "{provider:?}");
        assert!(decoder.is_done(), "{provider:?}");
        let error = decoder.push(b"\n").unwrap_err();
        assert_eq!(decoder.finish(), Err(error), "{provider:?}");
    }
}
