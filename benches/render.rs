//! What the request of a next turn costs as the history grows: rendered, encoded for the wire, and both.
#![expect(clippy::unwrap_used, reason = "a bench that cannot build its history measures nothing")]

use std::hint::black_box;

use agentling::domain::model::{ModelSpec, Provider};
use agentling::domain::step::StepContent;
use agentling::render::observation::OutputLimits;
use agentling::render::profile::Profile;
use agentling::render::redact::Redactor;
use agentling::render::{FramingRules, RenderInput, render};
use agentling::wire;
use criterion::{BenchmarkId, Criterion, Throughput};
use serde_json::{Value, json};

/// How many characters a tool gives back, which is what most of a history consists of.
const OUTPUT_CHARS: usize = 1_000;

/// A task, then turns with two calls each.
fn history(n_steps: usize) -> Vec<StepContent> {
    let task =
        json!({"kind": "task", "parts": [{"part_kind": "text", "text": "Find the invoices."}]});
    let steps = (1..n_steps).map(action);
    let steps: Vec<Value> = std::iter::once(task).chain(steps).collect();
    serde_json::from_value(steps.into()).unwrap()
}

fn action(turn: usize) -> Value {
    let ids = [format!("call_{turn}_a"), format!("call_{turn}_b")];
    let output = format!("row {turn}: <b>paid</b>, \"in full\"\n");
    let output = output.repeat(OUTPUT_CHARS / output.len());
    let calls = ids.iter().map(|id| {
        let arguments = format!("{{\"page\": {turn}}}");
        json!({"part_kind": "tool_call", "tool_call_id": id, "name": "search", "arguments": arguments})
    });
    let said = json!({"part_kind": "text", "text": "Looking at the next page."});
    let parts: Vec<Value> = std::iter::once(said).chain(calls).collect();
    let outcome = |id: &String| {
        json!({
            "tool_call_id": id, "name": "search", "is_error": false, "kind": "success",
            "output": {"output_kind": "text", "text": output}, "attempts": 1,
        })
    };
    let outcomes: Vec<Value> = ids.iter().map(outcome).collect();
    let reply = json!({"provider": "openai", "state": "complete", "parts": parts});
    json!({"kind": "action", "reply": reply, "outcomes": outcomes})
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let model: ModelSpec =
        serde_json::from_value(json!({"provider": "openai", "name": "gpt-5-mini"})).unwrap();
    let profile = Profile::resolve(&model);
    let (framing, limits) = (FramingRules::default(), OutputLimits::default());
    let redactor = Redactor::none();
    let render_all = |steps: &[StepContent]| {
        let input = RenderInput {
            model: &model,
            instructions: Some("Answer briefly."),
            skills: &[],
            steps,
            tools: &[],
            closing: false,
            output_schema: None,
            first_seq: 1,
            framing: &framing,
            limits: &limits,
            redactor: &redactor,
        };
        render(&input, &profile)
    };
    let mut group = criterion.benchmark_group("turn");
    for n_steps in [10, 100, 1_000] {
        let steps = history(n_steps);
        let prompt = render_all(&steps);
        let body = wire::encode(Provider::Openai, &prompt, &profile, false);
        group.throughput(Throughput::Bytes(u64::try_from(body.body.len()).unwrap()));
        group.bench_function(BenchmarkId::new("render", n_steps), |bencher| {
            bencher.iter(|| render_all(black_box(&steps)));
        });
        group.bench_function(BenchmarkId::new("encode", n_steps), |bencher| {
            bencher.iter(|| wire::encode(Provider::Openai, black_box(&prompt), &profile, false));
        });
        group.bench_function(BenchmarkId::new("prove", n_steps), |bencher| {
            bencher.iter(|| wire::prove(&prompt, black_box(&body)));
        });
        group.bench_function(BenchmarkId::new("render_and_encode", n_steps), |bencher| {
            bencher.iter(|| {
                let prompt = render_all(black_box(&steps));
                wire::encode(Provider::Openai, &prompt, &profile, false)
            });
        });
    }
    group.finish();
    criterion.final_summary();
}
