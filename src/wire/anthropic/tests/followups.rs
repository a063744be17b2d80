//! Recorded requests, read back into prompts and written again; and recorded replies, told again.

use serde_json::{Value, json};

use super::recorded::{exchanges, joined, model, read};
use crate::domain::id::CallId;
use crate::domain::message::{Reply, ReplyPart};
use crate::domain::model::Provider;
use crate::domain::step::StepContent;
use crate::render::FramingRules;
use crate::render::observation::OutputLimits;
use crate::render::profile::Profile;
use crate::render::redact::Redactor;
use crate::render::tests::support::{action, success, task};
use crate::render::{RenderInput, render};
use crate::wire::Codec as _;
use crate::wire::anthropic::AnthropicMessages;

/// Requests that hold what there are no words for here.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "anthropic-messages-003-tool-error-followup-tool-followup-tool-call",
        "a result that refers to a tool, which only the client's own search for tools gives",
    ),
    (
        "anthropic-messages-043-tool-call-server-tool",
        "tools that are kept back until the provider's search finds them, which an agent cannot say",
    ),
    (
        "anthropic-messages-051-tool-error-followup-tool-followup",
        "a result that refers to a tool, which only the client's own search for tools gives",
    ),
    (
        "anthropic-messages-030-stream-media-input",
        "a document by its id at the provider, which a file has no word for",
    ),
    (
        "anthropic-messages-052-tool-followup-media-input",
        "a document inside a result, whose channel is text alone: files of tools are framed",
    ),
    (
        "anthropic-messages-057-stream-media-input",
        "a document with a title and the wish for citations, of which a file has no word",
    ),
];

/// What is the client's choice, in the same form on both sides.
///
/// * `stream` and `is_error` may be left out where they are `false`, the caller where it is the model
///   itself, and citations where there are none.
/// * The content of a message may be a text or a list of one part, and so may the standing
///   instructions.
/// * Marks of the cache stand where a client puts them; an agent asks for the automatic ones.
/// * A client may have arguments held to the schema (`strict`) and may say that a tool is its own
///   (`custom`); the title of a document is the name of its file.
/// * The form of an answer had another place (`output_format`) before it had this one.
/// * A number may be spelt as a float, and `metadata` says who asked.
fn normal(body: &Value) -> Value {
    let mut body = strip(body);
    let Some(members) = body.as_object_mut() else { return body };
    members.entry("stream").or_insert_with(|| json!(false));
    members.remove("metadata");
    if let Some(system) = members.get("system").and_then(joined) {
        members.insert("system".to_owned(), json!(system));
    }
    if let Some(format) = members.remove("output_format") {
        members.insert("output_config".to_owned(), json!({"format": format}));
    }
    body
}

fn strip(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(strip).collect(),
        Value::Object(members) => {
            let is_message = members.contains_key("role");
            let is_document = value["type"] == "document";
            let told = members.iter().filter(|(name, member)| match (name.as_str(), member) {
                ("is_error", Value::Bool(false)) | ("citations", Value::Null) => false,
                ("cache_control", _) => members.contains_key("model"),
                ("strict", Value::Bool(_)) => members.contains_key("properties"),
                ("type", it) => *it != "custom",
                ("caller", it) => it["type"] != "direct",
                ("title", _) => !is_document,
                _ => true,
            });
            let spelt = |(name, member): (&String, &Value)| {
                let listed = is_message && name == "content" && member.is_string();
                let member =
                    if listed { json!([{"type": "text", "text": member}]) } else { strip(member) };
                (name.clone(), member)
            };
            told.map(spelt).collect()
        }
        Value::Number(number) => {
            let float = number.to_string();
            float.strip_suffix(".0").map_or_else(|| value.clone(), |it| it.parse().unwrap())
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

#[test]
fn recorded_requests_are_written_as_they_were_sent() {
    let mut unlike = Vec::new();
    for (name, exchange) in exchanges() {
        let sent = normal(&exchange["request"]["body"]);
        let (prompt, profile) = read(&sent);
        let stream = sent["stream"] == true;
        let body = AnthropicMessages.encode(&prompt, &profile, stream).body;
        let written = normal(&serde_json::from_slice(&body).unwrap());
        let is_listed = DIFFERENT.iter().any(|(listed, _)| *listed == name);
        match (written == sent, is_listed) {
            (false, false) => unlike.push(format!("{name}:\n{sent}\n{written}")),
            (true, true) => unlike.push(format!("{name}: take it off the list")),
            (true, false) | (false, true) => {}
        }
    }
    assert!(unlike.is_empty(), "{}", unlike.join("\n\n"));
}

/// The reply of an exchange, with the ids of its calls as they are stored, and its content as it came.
fn replied(exchange: &Value) -> Option<(Reply, Value)> {
    let content = exchange["response"]["body"]["content"].as_array()?;
    let body = exchange["response"]["body"].to_string();
    let mut reply = AnthropicMessages.decode(Provider::Anthropic, body.as_bytes()).unwrap();
    for part in &mut reply.parts {
        if let ReplyPart::ToolCall(call) = part {
            call.tool_call_id = CallId(call.provider_call_id.clone().unwrap());
        }
    }
    Some((reply, strip(&json!(content))))
}

#[test]
fn recorded_replies_are_told_again_as_they_came() {
    for (name, exchange) in exchanges() {
        let Some((reply, content)) = replied(&exchange) else { continue };
        let outcomes = reply.tool_calls().map(|call| success(call.tool_call_id.as_str(), "ok"));
        let mut acted = action(Vec::new(), outcomes.collect());
        acted.reply = reply;
        let model = model(&exchange["request"]["body"]);
        let profile = Profile::resolve(&model);
        let steps = [task("a"), StepContent::Action(acted), task("b")];
        let input = RenderInput {
            model: &model,
            instructions: None,
            skills: &[],
            steps: &steps,
            first_seq: 1,
            tools: &[],
            closing: false,
            output_schema: None,
            framing: &FramingRules::default(),
            limits: &OutputLimits::default(),
            redactor: &Redactor::none(),
        };
        let body = AnthropicMessages.encode(&render(&input, &profile), &profile, false).body;
        let body: Value = serde_json::from_slice(&body).unwrap();
        let told = body["messages"].as_array().unwrap().iter();
        let mut told = told.filter(|message| message["role"] == "assistant");
        let told = told.next().map_or_else(|| json!([]), |message| strip(&message["content"]));
        assert_eq!(told, content, "{name}");
    }
}
