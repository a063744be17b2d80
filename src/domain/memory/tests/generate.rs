//! Valid histories of every kind of step and part.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use crate::domain::file::{FileBytes, FilePart, FileSource, FileText, FileUrl};
use crate::domain::id::CallId;
use crate::domain::memory::Memory;
use crate::domain::message::{
    RedactedThinkingPart, RefusalPart, Reply, ReplyPart, ReplyState, TextPart, ThinkingPart,
    ToolCallPart, UnknownPart,
};
use crate::domain::model::{FinishReason, Provider, Usage};
use crate::domain::run::StopReason;
use crate::domain::step::{
    ActionStep, ContextStep, ErrorDetail, FinalStep, InputPart, InputText, Replaces, RetryCause,
    RetryContent, RetryStep, StepContent, SummaryStep, SystemStep, TaskStep, ToolsStep, V1Extras,
};
use crate::domain::thread::FramingPolicy;
use crate::domain::tool::{
    JsonOutput, OutcomeKind, TextOutput, ToolFailure, ToolOutcome, ToolOutput,
};

const SPELLINGS: &[&str] =
    &["1.10", "[12345678901234567890123]", "-0", "{\"b\":1e2,\"a\":{\"x\":1,\"x\":2}}"];

const ARGUMENTS: &[&str] = &[
    "{\"b\": 1.50, \"a\":1e+2}",
    " {}\n",
    "{\"a\":1,\"a\":2}",
    "{\"a\":\"\\u0000\"}",
    "{\"a\":1e999}",
    "[]",
];

/// A memory whose call ids are unique and whose calls are all answered.
pub(super) fn memory() -> impl Strategy<Value = Memory> {
    let labels = btree_map("[a-z/~\u{e9}]{0,6}", text(), 0..3);
    (option::of(labels), option::of(select(FramingPolicy::ALL)), vec(step(), 0..6)).prop_map(
        |(metadata, framing_policy, mut steps)| {
            number_calls(&mut steps);
            let steps = place_summaries(steps);
            Memory { metadata, framing_policy, steps }
        },
    )
}

/// Lets each summary stand for steps before itself; one that has none before it goes.
fn place_summaries(steps: Vec<StepContent>) -> Vec<StepContent> {
    let mut placed: Vec<StepContent> = Vec::new();
    for mut step in steps {
        let n_before = i64::try_from(placed.len()).unwrap();
        if let StepContent::Summary(summary) = &mut step {
            if n_before == 0 {
                continue;
            }
            summary.through_seq = summary.through_seq.rem_euclid(n_before) + 1;
        }
        placed.push(step);
    }
    placed
}

fn number_calls(steps: &mut [StepContent]) {
    let mut next = 0;
    for step in steps {
        let StepContent::Action(action) = step else { continue };
        let calls = action.reply.parts.iter_mut().filter_map(|part| {
            if let ReplyPart::ToolCall(call) = part { Some(call) } else { None }
        });
        let (mut calls, mut outcomes) = (calls.collect::<Vec<_>>(), action.outcomes.iter_mut());
        for call in &mut calls {
            let outcome = outcomes.next().unwrap();
            call.tool_call_id = CallId(format!("call/{next}~"));
            outcome.tool_call_id = call.tool_call_id.clone();
            outcome.name.clone_from(&call.name);
            next += 1;
        }
        let n_calls = calls.len();
        action.outcomes.truncate(n_calls);
        if let Some(v1) = &mut action.v1 {
            v1.untyped_errors = action.outcomes.iter().map(|o| o.tool_call_id.clone()).collect();
        }
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[^\u{0}]{0,12}",
        Just("\u{1f980} \"\\/\u{8}\u{1f}\u{7f}\u{2028}\u{feff}\r\n".to_owned()),
        Just("</system>".to_owned()),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has finite numbers only", |x| x.is_finite())
            .prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let members = vec((text(), inner.clone()), 0..4);
        prop_oneof![
            vec(inner, 0..4).prop_map(Value::Array),
            members.prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn step() -> impl Strategy<Value = StepContent> {
    let part = prop_oneof![
        3 => text().prop_map(|text| InputPart::Text(InputText { text })),
        1 => file().prop_map(InputPart::File),
    ];
    let names = || vec(text(), 0..3);
    let ending = (text(), option::of(value()), option::of(select(StopReason::ALL)));
    prop_oneof![
        1 => vec(part, 1..3).prop_map(|parts| StepContent::Task(TaskStep { parts })),
        3 => action().prop_map(StepContent::Action),
        1 => retry().prop_map(StepContent::Retry),
        1 => text().prop_map(|text| StepContent::System(SystemStep { text })),
        1 => ("[a-z][a-z0-9_-]{0,9}", option::of(text())).prop_map(|(id, text)| {
            StepContent::Context(ContextStep { id: id.parse().unwrap(), text })
        }),
        1 => (names(), names())
            .prop_map(|(added, removed)| StepContent::Tools(ToolsStep { added, removed })),
        1 => (option::of(text()), any::<i64>()).prop_map(|(text, through_seq)| {
            let replaces = if text.is_some() { Replaces::Steps } else { Replaces::ToolOutput };
            StepContent::Summary(SummaryStep { replaces, through_seq, text, usage: None })
        }),
        1 => ending.prop_map(|(answer, output, stop_reason)| {
            StepContent::Final(FinalStep { answer, output, stop_reason })
        }),
    ]
}

fn file() -> impl Strategy<Value = FilePart> {
    let source = prop_oneof![
        text().prop_map(|text| FileSource::Text(FileText { text })),
        "([A-Za-z0-9+/]{4}){1,3}".prop_map(|base64| FileSource::Base64(FileBytes { base64 })),
        "https://[a-z]{1,9}/[a-z]{0,9}".prop_map(|url| FileSource::Url(FileUrl { url })),
    ];
    let id = text().prop_map(|text| format!("f{}", text.chars().take(200).collect::<String>()));
    (id, "[a-z]{1,5}/[a-z+.-]{1,9}", source).prop_map(|(id, media_type, source)| FilePart {
        id,
        media_type,
        source,
    })
}

fn retry() -> impl Strategy<Value = RetryStep> {
    let detail = (text(), vec(value(), 0..3), text(), option::of(value()))
        .prop_map(|(r#type, loc, msg, input)| ErrorDetail { r#type, loc, msg, input });
    prop_oneof![
        (select(RetryCause::ALL), text())
            .prop_map(|(cause, text)| RetryStep { cause, content: RetryContent::Message(text) }),
        vec(detail, 0..3).prop_map(|errors| RetryStep {
            cause: RetryCause::Error,
            content: RetryContent::Errors(errors),
        }),
    ]
}

fn action() -> impl Strategy<Value = ActionStep> {
    (reply(), vec(outcome(), 5), option::of(extras()))
        .prop_map(|(reply, outcomes, v1)| ActionStep { reply, outcomes, v1 })
}

fn reply() -> impl Strategy<Value = Reply> {
    let names = (option::of(select(Provider::ALL)), option::of(text()), option::of(text()));
    let usage =
        any::<[u64; 5]>().prop_map(|[input, output, cache_read, cache_write, reasoning]| Usage {
            input,
            output,
            cache_read,
            cache_write,
            reasoning,
        });
    let facts = (option::of(select(FinishReason::ALL)), option::of(usage), select(ReplyState::ALL));
    (names, facts, vec(reply_part(), 0..5)).prop_map(
        |((provider, model, response_id), (finish_reason, usage, state), parts)| Reply {
            host: response_id.clone(),
            provider,
            model,
            response_id,
            finish_reason,
            usage,
            state,
            parts,
        },
    )
}

fn reply_part() -> impl Strategy<Value = ReplyPart> {
    let issuer = || option::of(select(Provider::ALL));
    let arguments = prop_oneof![text(), select(ARGUMENTS).prop_map(str::to_owned)];
    prop_oneof![
        (text(), option::of(value())).prop_map(|(text, echo)| {
            // Null is how the absent one is read.
            let echo = echo.filter(|echo| !echo.is_null());
            ReplyPart::Text(TextPart { text, echo })
        }),
        text().prop_map(|text| ReplyPart::Refusal(RefusalPart { text })),
        (text(), option::of(text()), option::of(text()), issuer()).prop_map(
            |(text, signature, id, issuer)| {
                ReplyPart::Thinking(ThinkingPart { text, signature, id, issuer, echo: None })
            }
        ),
        (text(), issuer()).prop_map(|(data, issuer)| {
            ReplyPart::RedactedThinking(RedactedThinkingPart { data, issuer })
        }),
        (value(), issuer())
            .prop_map(|(raw, issuer)| ReplyPart::Unknown(UnknownPart { issuer, raw })),
        (option::of(text()), text(), arguments).prop_map(|(provider_call_id, name, arguments)| {
            let tool_call_id = CallId(String::new());
            ReplyPart::ToolCall(ToolCallPart {
                tool_call_id,
                provider_call_id,
                name,
                arguments,
                echo: None,
            })
        }),
    ]
}

fn outcome() -> impl Strategy<Value = ToolOutcome> {
    let output = prop_oneof![
        text().prop_map(|text| ToolOutput::Text(TextOutput { text })),
        value().prop_map(|json| ToolOutput::Json(JsonOutput::from(json))),
        select(SPELLINGS).prop_map(|text| {
            ToolOutput::Json(JsonOutput::of(text).expect("the spellings are JSON"))
        }),
    ];
    let failure = ("[ -~]{0,9}", text(), any::<bool>())
        .prop_map(|(r#type, message, redacted)| ToolFailure { r#type, message, redacted });
    let time = || {
        option::of((0..4_000_000_000_000_000_i64).prop_map(|us| {
            chrono::DateTime::from_timestamp_micros(us).expect("the range is within time")
        }))
    };
    let given = (option::of(output), vec(file(), 0..2));
    let result = (select(OutcomeKind::ALL), given, option::of(failure));
    (result, any::<u32>(), time(), time(), any::<bool>()).prop_map(
        |((kind, (output, files), error), attempts, started_at, finished_at, sanitised)| {
            let is_error = kind != OutcomeKind::Success;
            ToolOutcome {
                tool_call_id: CallId(String::new()),
                name: String::new(),
                is_error,
                kind,
                output: output.filter(|_| !is_error),
                files: if is_error { Vec::new() } else { files },
                error: error.filter(|_| is_error),
                attempts,
                started_at,
                finished_at,
                sanitised,
            }
        },
    )
}

fn extras() -> impl Strategy<Value = V1Extras> {
    let usage = || {
        option::of(
            any::<[u64; 2]>().prop_map(|[i, o]| json!({"input_tokens": i, "output_tokens": o})),
        )
    };
    let texts = (option::of(select(vec!["user", "tool"])), option::of(text()), option::of(text()));
    let duration = option::of((0.0..1e6_f64).prop_map(Value::from));
    (texts, any::<bool>(), usage(), usage(), duration).prop_map(
        |((role, tool_call_id, error), content_is_empty_text, message_usage, usage, duration)| {
            V1Extras {
                role: role.map(str::to_owned),
                content_is_empty_text,
                tool_call_id,
                message_usage,
                error,
                usage,
                duration,
                untyped_errors: Vec::new(),
            }
        },
    )
}
