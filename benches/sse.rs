//! How fast streamed answers are read: events alone, and whole replies of each wire's small events.
#![expect(clippy::unwrap_used, reason = "a bench that cannot build its stream measures nothing")]

use std::hint::black_box;

use agentling::domain::message::Reply;
use agentling::domain::provider::Provider;
use agentling::wire::StreamDecoder;
use agentling::wire::sse::SseDecoder;
use criterion::{Criterion, Throughput};
use serde_json::{Value, json};

/// How many pieces of text a stream brings, one event each.
const N_PIECES: usize = 10_000;

/// How much of a stream arrives at once, in bytes.
const READ: usize = 16 * 1024;

fn events(first: &[Value], piece: &Value, last: &[Value]) -> Vec<u8> {
    let pieces = std::iter::repeat_n(piece, N_PIECES);
    let all = first.iter().chain(pieces).chain(last);
    all.flat_map(|event| format!("data: {event}\n\n").into_bytes()).collect()
}

fn streams() -> Vec<(Provider, Vec<u8>)> {
    let chat = |delta: Value, finish: Value| {
        json!({"id": "c", "model": "m", "object": "chat.completion.chunk",
               "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let block = json!({"type": "text", "text": ""});
    let delta = json!({"type": "text_delta", "text": "eight ch"});
    let parts = json!([{"text": "eight ch"}]);
    vec![
        (
            Provider::Openai,
            events(
                &[],
                &chat(json!({"content": "eight ch"}), Value::Null),
                &[chat(json!({}), json!("stop"))],
            ),
        ),
        (
            Provider::Anthropic,
            events(
                &[json!({"type": "content_block_start", "index": 0, "content_block": block})],
                &json!({"type": "content_block_delta", "index": 0, "delta": delta}),
                &[
                    json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
                    json!({"type": "message_stop"}),
                ],
            ),
        ),
        (
            Provider::Gemini,
            events(
                &[],
                &json!({"candidates": [{"content": {"parts": parts}}]}),
                &[json!({"candidates": [{"finishReason": "STOP"}]})],
            ),
        ),
    ]
}

fn reply(provider: Provider, body: &[u8]) -> Reply {
    let mut decoder = StreamDecoder::new(provider);
    for piece in body.chunks(READ) {
        decoder.push(piece).unwrap();
    }
    decoder.finish().unwrap()
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("stream");
    for (provider, body) in streams() {
        group.throughput(Throughput::Bytes(u64::try_from(body.len()).unwrap()));
        group.bench_function(format!("events/{provider}"), |bencher| {
            bencher.iter(|| {
                let mut decoder = SseDecoder::default();
                let pieces = black_box(&body).chunks(READ);
                pieces.map(|piece| decoder.push(piece).unwrap().len()).sum::<usize>()
            });
        });
        group.bench_function(format!("reply/{provider}"), |bencher| {
            bencher.iter(|| reply(provider, black_box(&body)));
        });
    }
    group.finish();
    criterion.final_summary();
}
