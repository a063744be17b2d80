//! Compares what the codec reads with what an exchange is expected to be read as.
//!
//! Text is compared without the white space around it, thinking without any, and calls by value.

use std::time::Duration;

use serde_json::{Value, json};

use crate::domain::message::{Reply, ReplyPart};
use crate::domain::model::{FinishReason, ModelError, Usage};

/// What a client made of an exchange, in the words of the expectation.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reading {
    pub(super) outcome: &'static str,
    pub(super) parts: Vec<Value>,
    pub(super) usage: Option<Usage>,
    pub(super) finish_reason: Option<&'static str>,
    pub(super) error: Option<ModelError>,
}

impl Reading {
    pub(super) fn of_reply(reply: &Reply) -> Self {
        Self {
            outcome: "reply",
            parts: reply.parts.iter().map(part).collect(),
            usage: reply.usage,
            finish_reason: reply.finish_reason.and_then(finish_reason),
            error: None,
        }
    }

    pub(super) fn of_error(error: ModelError) -> Self {
        Self {
            outcome: "error",
            parts: Vec::new(),
            usage: None,
            finish_reason: None,
            error: Some(error),
        }
    }

    pub(super) fn of_broken(partial: &Reply, error: ModelError) -> Self {
        if partial.parts.is_empty() {
            return Self::of_error(error);
        }
        Self { outcome: "reply_then_error", error: Some(error), ..Self::of_reply(partial) }
    }

    /// The reading as a line for the shared judge.
    pub(super) fn told(&self, id: &str) -> Value {
        let error = self.error.as_ref().map(|error| {
            let wait = error.retry_after_ms.map(|ms| Duration::from_millis(ms).as_secs_f64());
            json!({"class": error.kind.label(), "retryable": error.retryable, "retry_after_s": wait})
        });
        json!({
            "id": id,
            "outcome": self.outcome,
            "parts": self.parts,
            "usage": self.usage,
            "finish_reason": self.finish_reason,
            "error": error,
        })
    }
}

fn finish_reason(reason: FinishReason) -> Option<&'static str> {
    match reason {
        FinishReason::ToolCalls => Some("tool_call"),
        FinishReason::Other => None,
        named => Some(named.label()),
    }
}

fn part(part: &ReplyPart) -> Value {
    match part {
        ReplyPart::Text(part) => json!({"type": "text", "text": part.text}),
        ReplyPart::Thinking(part) => {
            json!({"type": "thinking", "text": part.text, "signed": part.signature.is_some()})
        }
        ReplyPart::RedactedThinking(_) => json!({"type": "thinking", "text": "", "signed": true}),
        ReplyPart::Refusal(part) => json!({"type": "refusal", "text": part.text}),
        ReplyPart::Unknown(part) if part.raw.get("inlineData").is_some() => json!({"type": "file"}),
        ReplyPart::Unknown(part) => json!({"type": "provider_item", "raw": part.raw}),
        ReplyPart::ToolCall(call) => {
            let args = serde_json::from_str(&call.arguments).ok().filter(Value::is_object);
            let invalid = args.is_none();
            let id = call.provider_call_id.as_deref().unwrap_or(call.tool_call_id.as_str());
            json!({"type": "tool_call", "id": id, "name": call.name, "args": args, "args_invalid": invalid})
        }
    }
}

fn of_type<'a>(parts: &'a [Value], kind: &str) -> Vec<&'a Value> {
    parts.iter().filter(|part| part["type"] == kind).collect()
}

fn joined(parts: &[Value], kind: &str) -> String {
    of_type(parts, kind).iter().filter_map(|part| part["text"].as_str()).collect()
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

/// What `accepted` lists under `key_any`, or the one value under `key`.
fn accepted(expected: &Value, key: &str) -> Vec<Value> {
    let any = expected[format!("{key}_any")].as_array().cloned();
    any.unwrap_or_else(|| vec![expected[key].clone()])
}

/// Every way in which a reading is not what was expected.
pub(super) fn differences(expected: &Value, got: &Reading) -> Vec<String> {
    if !accepted(expected, "outcome").contains(&json!(got.outcome)) {
        return vec![format!("outcome {}, wanted {}", got.outcome, expected["outcome"])];
    }
    let mut found = Vec::new();
    let wanted = expected["parts"].as_array().cloned().unwrap_or_default();
    if expected["outcome"] != "error" {
        found.extend(text_differences(expected, &wanted, &got.parts));
        found.extend(thinking_differences(expected, &wanted, &got.parts));
        found.extend(call_differences(&wanted, &got.parts));
        found.extend(usage_differences(expected, got.usage));
    }
    let reasons = accepted(expected, "finish_reason");
    if expected["outcome"] == "reply" && !reasons.contains(&json!(got.finish_reason)) {
        found.push(format!("finish reason {:?}, wanted {reasons:?}", got.finish_reason));
    }
    if !expected["error"].is_null() && got.outcome != "reply" {
        found.extend(error_differences(&expected["error"], got.error.as_ref()));
    }
    found
}

fn text_differences(expected: &Value, wanted: &[Value], got: &[Value]) -> Option<String> {
    let text = joined(wanted, "text");
    let unsplit = expected["text_alt"].as_str().map_or_else(|| text.clone(), str::to_owned);
    let refused = format!("{text}{}", joined(wanted, "refusal"));
    let got = joined(got, "text");
    let fits = [text, unsplit, refused].iter().any(|wanted| wanted.trim() == got.trim());
    (!fits).then(|| format!("text {got:?}"))
}

fn thinking_differences(expected: &Value, wanted: &[Value], got: &[Value]) -> Vec<String> {
    let (want, have) = (of_type(wanted, "thinking"), of_type(got, "thinking"));
    if want.is_empty() || expected["text_alt"].is_string() {
        return Vec::new();
    }
    if have.is_empty() {
        return vec!["thinking lost".to_owned()];
    }
    let mut found = Vec::new();
    let raw: String = want.iter().filter_map(|part| part["raw_text"].as_str()).collect();
    let (told, text) = (squeezed(&joined(got, "thinking")), squeezed(&joined(wanted, "thinking")));
    if told != text && told != squeezed(&raw) {
        found.push("thinking text differs".to_owned());
    }
    let signed = |parts: &[&Value]| parts.iter().any(|part| part["signed"] == true);
    if signed(&want) && !signed(&have) {
        found.push("thinking signature lost".to_owned());
    }
    found
}

fn call_differences(wanted: &[Value], got: &[Value]) -> Vec<String> {
    let (want, have) = (of_type(wanted, "tool_call"), of_type(got, "tool_call"));
    let names = |calls: &[&Value]| calls.iter().map(|call| call["name"].clone()).collect();
    let (wanted_names, names): (Vec<_>, Vec<_>) = (names(&want), names(&have));
    if wanted_names != names {
        return vec![format!("tool calls {names:?}, wanted {wanted_names:?}")];
    }
    let mut found = Vec::new();
    for (call, read) in want.iter().zip(&have) {
        let invalid = call["args_invalid"] == true;
        if (!invalid && call["args"] != read["args"]) || (invalid && !read["args"].is_null()) {
            found.push(format!("arguments {}, wanted {}", read["args"], call["args"]));
        }
        let unique = want.iter().filter(|other| other["id"] == call["id"]).count() == 1;
        if !call["id"].is_null() && unique && call["id"] != read["id"] {
            found.push(format!("id {}, wanted {}", read["id"], call["id"]));
        }
    }
    let ids: std::collections::BTreeSet<_> = have.iter().map(|call| call["id"].as_str()).collect();
    if ids.len() != have.len() || ids.contains(&Some("")) {
        found.push("a call has no id of its own".to_owned());
    }
    found
}

fn usage_differences(expected: &Value, got: Option<Usage>) -> Vec<String> {
    if !expected["usage"].is_object() {
        return Vec::new();
    }
    let got = json!(got.unwrap_or_default());
    let fits = |key: &&&str| match (**key, expected["usage_output_any"].as_array()) {
        ("output", Some(any)) => any.contains(&got["output"]),
        (key, _) => expected["usage"][key] == got[key],
    };
    let keys = ["input", "output", "cache_read", "cache_write", "reasoning"];
    let off = keys.iter().filter(|key| !fits(key));
    off.map(|key| format!("usage {key} {}, wanted {}", got[key], expected["usage"][key])).collect()
}

fn error_differences(expected: &Value, got: Option<&ModelError>) -> Vec<String> {
    let Some(got) = got else { return vec!["no error".to_owned()] };
    let mut found = Vec::new();
    let classes = accepted(expected, "class");
    if !classes.contains(&json!(got.kind.label())) {
        found.push(format!("error class {}, wanted {classes:?}", got.kind));
    }
    if json!(got.retryable) != expected["retryable"] {
        found.push(format!("retryable {}", got.retryable));
    }
    let wait = expected["retry_after_s"].as_f64().map(|seconds| (seconds * 1_000.0).round());
    let told = got.retry_after_ms.map(|wait| serde_json::Number::from(wait).as_f64().unwrap());
    if wait.is_some() && wait != told {
        found.push(format!("retry after {told:?} ms, wanted {wait:?}"));
    }
    if expected["retry_after_s"] == "http-date" && told.is_none_or(|wait| wait == 0.0) {
        found.push("the date of retry-after was not read".to_owned());
    }
    found
}
