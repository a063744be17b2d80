//! Message lists of others: what becomes of them, and what is refused in them.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::domain::memory::{MAX_FINDINGS, Memory, export_v2, load};
use crate::domain::step::StepContent;

const PLAIN: &str = include_str!("../../../../tests/data/memory_pydantic/plain.json");
const TOOLS: &str = include_str!("../../../../tests/data/memory_pydantic/tools.json");
const FEEDBACK: &str = include_str!("../../../../tests/data/memory_pydantic/feedback.json");
const PROMPTS: &str = include_str!("../../../../tests/data/memory_pydantic/prompts.json");
const KEPT: &str = include_str!("../../../../tests/data/memory_pydantic/kept.json");
const LEGACY: &str = include_str!("../../../../tests/data/memory_pydantic/legacy.json");
const FILES: &str = include_str!("../../../../tests/data/memory_pydantic/files.json");
const DOCUMENTS: [&str; 7] = [PLAIN, TOOLS, FEEDBACK, PROMPTS, KEPT, LEGACY, FILES];

/// The steps of a document, as version 2 has them.
fn steps(text: &str) -> Value {
    let memory = load(text).unwrap();
    assert_eq!((&memory.metadata, &memory.framing_policy), (&None, &None));
    assert!(!memory.steps.iter().any(|step| matches!(step, StepContent::Final(_))));
    let exported = export_v2(&memory);
    assert_eq!(load(&exported).unwrap().steps, memory.steps);
    serde_json::from_str::<Value>(&exported).unwrap()["steps"].take()
}

fn findings(text: &str) -> Vec<(String, String)> {
    let error = load(text).unwrap_err();
    assert!((1..=MAX_FINDINGS).contains(&error.findings.len()));
    error.findings.into_iter().map(|finding| (finding.pointer, finding.code)).collect()
}

fn expect(document: &Value, expected: &[(&str, &str)]) {
    let found = findings(&document.to_string());
    let found: Vec<(&str, &str)> = found.iter().map(|(p, c)| (p.as_str(), c.as_str())).collect();
    assert_eq!(found, expected, "{document}");
}

fn asked(texts: &[&str]) -> Value {
    let parts: Vec<Value> =
        texts.iter().map(|text| json!({ "part_kind": "text", "text": text })).collect();
    json!({ "kind": "task", "parts": parts })
}

fn replied(parts: &Value) -> Value {
    json!({ "kind": "action", "reply": { "state": "complete", "parts": parts }, "outcomes": [] })
}

fn said(text: &str) -> Value {
    replied(&json!([{ "part_kind": "text", "text": text }]))
}

fn called(id: &str, name: &str, arguments: &str) -> Value {
    json!({ "part_kind": "tool_call", "tool_call_id": id, "name": name, "arguments": arguments })
}

#[test]
fn prompts_and_replies_become_tasks_and_actions_with_all_that_is_known() {
    assert_eq!(
        steps(PLAIN),
        json!([
            { "kind": "system", "text": "You know every harbour." },
            asked(&["Where is Brest?"]),
            { "kind": "action", "reply": {
                "provider": "openai", "model": "gpt-5-mini", "response_id": "chatcmpl-1",
                "finish_reason": "stop",
                "usage": { "input": 41, "output": 9, "cache_read": 32, "cache_write": 0,
                           "reasoning": 4 },
                "state": "complete",
                "parts": [{ "part_kind": "text", "text": "On the Atlantic." }] },
              "outcomes": [] },
            asked(&["And", "Calais?"]),
            { "kind": "action", "reply": {
                "provider": "anthropic", "finish_reason": "length",
                "usage": { "input": 0, "output": 0, "cache_read": 0, "cache_write": 0,
                           "reasoning": 0 },
                "state": "interrupted",
                "parts": [
                    { "part_kind": "thinking", "text": "They mean the port.",
                      "signature": "c2ln", "id": "rs_1", "issuer": "openai" },
                    { "part_kind": "redacted_thinking", "data": "b3BhcXVl",
                      "issuer": "anthropic" },
                    { "part_kind": "text", "text": "On the Channel." }] },
              "outcomes": [] },
        ])
    );
}

#[test]
fn calls_keep_their_arguments_and_get_their_outcomes_in_call_order() {
    let steps = steps(TOOLS);
    let action = &steps[1];
    let parts = action["reply"]["parts"].as_array().unwrap();
    let arguments: Vec<&str> = parts.iter().filter_map(|part| part["arguments"].as_str()).collect();
    let compact = r#"{"z":1,"a":{"y":[true,null],"x":"é"}}"#;
    assert_eq!(arguments, [r#"{ "z":1.50, "a":1E+2 }"#, compact, "", "{}", "", "{}"]);
    let at = "2026-03-14T15:09:26Z";
    let gave = |id: &str, name: &str, output: Value| {
        json!({ "tool_call_id": id, "name": name, "is_error": false, "kind": "success",
                "output": output, "attempts": 1, "finished_at": at })
    };
    let failed = |id: &str, kind: &str, message: &str, attempts: u32| {
        json!({ "tool_call_id": id, "name": "crane", "is_error": true, "kind": kind,
                "error": { "type": "", "message": message }, "attempts": attempts,
                "finished_at": at })
    };
    let json_output = |value: Value| json!({ "output_kind": "json", "json": value });
    assert_eq!(
        action["outcomes"],
        json!([
            gave("call_text", "depth", json!({ "output_kind": "text", "text": "eleven" })),
            gave(
                "call_object",
                "depth",
                json_output(json!({ "metres": 11.5, "at": ["low", "high"] }))
            ),
            gave("call_none", "tide", json_output(Value::Null)),
            failed("call_failed", "execution", "the crane is stuck", 1),
            failed("call_denied", "denied", "Ask the harbour master.", 0),
            failed("call_interrupted", "interrupted", "The run ended.", 0),
        ])
    );
    assert_eq!(steps[2], asked(&["Well?"]));
}

fn details() -> Value {
    json!([
        { "type": "missing", "loc": ["berth"], "msg": "Field required",
          "input": { "b": 1, "a": [2] } },
        { "type": "greater_than", "loc": ["tide", 0], "msg": "Input should be greater than 0",
          "input": -1 },
    ])
}

/// The retry steps, and the outcomes of the calls.
fn retries(text: &str) -> (Vec<Value>, Vec<Value>) {
    let steps = steps(text);
    let steps = steps.as_array().unwrap();
    let retries = steps.iter().filter(|step| step["kind"] == "retry").cloned().collect();
    let outcomes = steps.iter().filter_map(|step| step["outcomes"].as_array()).flatten();
    let told = outcomes.map(|o| json!([o["tool_call_id"], o["kind"], o["error"]["message"]]));
    (retries, told.collect())
}

#[test]
fn the_three_causes_of_retry_feedback_become_two() {
    let (retries, outcomes) = retries(FEEDBACK);
    assert_eq!(
        retries,
        [
            json!({ "kind": "retry", "cause": "error", "content": details() }),
            json!({ "kind": "retry", "cause": "error", "content": "North is no berth." }),
            json!({ "kind": "retry", "cause": "no_output",
                    "content": "Please return text or call a tool." }),
            json!({ "kind": "retry", "cause": "no_output", "content": "Obey the harbour master." }),
        ]
    );
    let list = r#"[{"type":"int_parsing","loc":["n"],"msg":"not a number"}]"#;
    assert_eq!(
        outcomes,
        [
            json!(["c1", "invalid_arguments", list]),
            json!(["c2", "unknown_tool", "Unknown tool name: 'birth'."]),
        ]
    );
}

#[test]
fn a_retry_prompt_is_an_error_unless_it_says_that_nothing_came() {
    let (retries, outcomes) = retries(PROMPTS);
    assert_eq!(
        retries,
        [
            json!({ "kind": "retry", "cause": "error", "content": details() }),
            json!({ "kind": "retry", "cause": "error", "content": "North is no berth." }),
            json!({ "kind": "retry", "cause": "no_output", "content": "Please return text." }),
            json!({ "kind": "retry", "cause": "error", "content": [details()[0]] }),
        ]
    );
    assert_eq!(
        outcomes,
        [
            json!(["c1", "invalid_arguments", details().to_string()]),
            json!(["c2", "invalid_arguments", "No berth has such a number."]),
            json!(["c3", "invalid_arguments", "Please call a tool."]),
        ]
    );
}

#[test]
fn nothing_came_beside_the_name_of_a_tool_is_an_error() {
    let part = json!({ "part_kind": "retry-prompt", "content": "Please return text.",
                       "cause": "no_output", "tool_name": "t" });
    let document = json!([{ "kind": "request", "parts": [part] }]);
    assert_eq!(steps(&document.to_string())[0]["cause"], "error");
}

#[test]
fn what_a_step_has_no_words_for_is_kept_or_belongs_to_the_agent() {
    let steps = steps(KEPT);
    assert_eq!(steps[0], asked(&["Draw the harbour."]));
    let parts = steps[1]["reply"]["parts"].as_array().unwrap();
    let kinds: Vec<Value> =
        parts.iter().map(|part| json!([part["issuer"], part["raw"]["part_kind"]])).collect();
    assert_eq!(
        kinds,
        [
            json!([null, "builtin-tool-call"]),
            json!([null, "builtin-tool-return"]),
            json!([null, "file"]),
            json!([null, "compaction"]),
            json!([null, null]),
        ]
    );
    assert_eq!(steps.as_array().unwrap().len(), 2);
}

#[test]
fn documents_of_old_versions_are_read_by_their_names_of_then() {
    let steps = steps(LEGACY);
    let reply = &steps[2]["reply"];
    assert_eq!((&reply["response_id"], &reply["model"]), (&json!("chatcmpl-0"), &json!("gpt-4o")));
    assert_eq!((&reply["usage"]["input"], &reply["usage"]["output"]), (&json!(12), &json!(5)));
    assert_eq!(steps[2]["outcomes"][0]["error"]["message"], "Say which quay.");
    assert_eq!(steps[3]["reply"].get("usage"), None);
}

fn chat() -> Value {
    json!([
        { "role": "system", "content": "You know every harbour." },
        { "role": "developer", "content": [{ "type": "text", "text": "Be brief." }] },
        { "role": "user", "name": "ann", "content": "How deep?" },
        { "role": "assistant", "content": null, "reasoning_content": "Look.", "annotations": [],
          "tool_calls": [
            { "id": "a", "type": "function", "index": 0,
              "function": { "name": "depth", "arguments": "{ \"n\":1.0 }" } },
            { "id": "b", "type": "function", "function": { "name": "tide", "arguments": "" } },
        ] },
        { "role": "tool", "tool_call_id": "b", "content": [
            { "type": "text", "text": "lo" }, { "type": "text", "text": "w" } ] },
        { "role": "tool", "tool_call_id": "a", "name": "depth", "content": "eleven" },
        { "role": "user", "content": [
            { "type": "text", "text": "Well?" }, { "type": "text", "text": "Quick!" } ] },
        { "role": "assistant", "content": [
            { "type": "text", "text": "Eleven." }, { "type": "refusal", "refusal": "No more." } ] },
        { "role": "assistant", "content": "Or so.", "refusal": "Enough.", "audio": null },
    ])
}

#[test]
fn chat_messages_become_steps() {
    let gave = |id: &str, name: &str, text: &str| {
        json!({ "tool_call_id": id, "name": name, "is_error": false, "kind": "success",
                "output": { "output_kind": "text", "text": text }, "attempts": 1 })
    };
    let mut first = replied(&json!([
        { "part_kind": "thinking", "text": "Look." },
        called("a", "depth", "{ \"n\":1.0 }"),
        called("b", "tide", ""),
    ]));
    first["outcomes"] = json!([gave("a", "depth", "eleven"), gave("b", "tide", "low")]);
    let refused = |text: &str, refusal: &str| {
        replied(&json!([{ "part_kind": "text", "text": text },
                        { "part_kind": "refusal", "text": refusal }]))
    };
    assert_eq!(
        steps(&chat().to_string()),
        json!([
            { "kind": "system", "text": "You know every harbour." },
            { "kind": "system", "text": "Be brief." },
            asked(&["How deep?"]),
            first,
            asked(&["Well?", "Quick!"]),
            refused("Eleven.", "No more."),
            refused("Or so.", "Enough."),
        ])
    );
    assert_eq!(steps(r#"[{"role":"assistant","content":"x"}]"#), json!([said("x")]));
}

#[test]
fn a_list_of_anything_else_is_no_memory() {
    for text in ["[]", "[1]", "[{}]", r#"[{"type":"task"}]"#, "[[]]"] {
        assert_eq!(findings(text), [(String::new(), "not_an_object".to_owned())], "{text}");
    }
    let user = json!({ "role": "user", "content": "x" });
    let request = json!({ "kind": "request", "parts": [] });
    expect(&json!([user, request]), &[("/1", "mixed_formats")]);
    expect(&json!([request, user, 7]), &[("/1", "mixed_formats"), ("/2", "wrong_type")]);
    expect(&json!([request, {}]), &[("/1/kind", "missing_field")]);
    expect(&json!([{ "kind": "task", "parts": [] }]), &[("/0/kind", "unknown_kind")]);
    expect(&json!([{ "role": "bard", "content": "" }]), &[("/0/role", "unknown_kind")]);
}

#[test]
fn calls_and_outcomes_that_do_not_pair_are_refused() {
    let asks = |id: &str| json!({ "id": id, "function": { "name": "t", "arguments": "{}" } });
    let calls = |ids: &[&str]| {
        let calls: Vec<Value> = ids.iter().map(|id| asks(id)).collect();
        json!({ "role": "assistant", "tool_calls": calls })
    };
    let answers = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": "" });
    expect(&json!([calls(&["a"])]), &[("/0/tool_calls/0/id", "unpaired_call")]);
    expect(
        &json!([calls(&["a", "b"]), answers("b"), calls(&["c"]), answers("c"), answers("a")]),
        &[("/0/tool_calls/0/id", "unpaired_call"), ("/4/tool_call_id", "unpaired_call")],
    );
    expect(
        &json!([calls(&["a"]), answers("a"), answers("a")]),
        &[("/2/tool_call_id", "unpaired_call")],
    );
    expect(
        &json!([calls(&["a"]), answers("a"), calls(&["a"]), answers("a")]),
        &[("/2/tool_calls/0/id", "duplicate_call_id")],
    );
    // What is missing may stand in the message that could not be read.
    expect(
        &json!([calls(&["a"]), { "role": "tool", "tool_call_id": "a", "content": 1 }]),
        &[("/1/content", "wrong_type")],
    );
    let response = |part: Value| json!({ "kind": "response", "parts": [part] });
    let request = |part: Value| json!({ "kind": "request", "parts": [part] });
    let call = json!({ "part_kind": "tool-call", "tool_name": "t", "tool_call_id": "a" });
    let misnamed = json!({ "part_kind": "tool-return", "tool_name": "u", "tool_call_id": "a",
                           "content": "" });
    expect(
        &json!([response(call.clone()), request(misnamed)]),
        &[("/1/parts/0/tool_name", "invalid_value")],
    );
    let retry = json!({ "part_kind": "retry-prompt", "content": "x", "tool_name": "t",
                        "tool_call_id": "b" });
    expect(
        &json!([response(call), request(retry)]),
        &[
            ("/1/parts/0/tool_call_id", "unpaired_call"),
            ("/0/parts/0/tool_call_id", "unpaired_call"),
        ],
    );
}

#[test]
fn a_reply_may_have_very_many_calls_that_are_answered_in_any_order() {
    let n_calls = 20_000;
    let calls: Vec<Value> = (0..n_calls)
        .map(|n| json!({ "id": n.to_string(), "function": { "name": "t", "arguments": "" } }))
        .collect();
    let answer = |n: usize| json!({ "role": "tool", "tool_call_id": n.to_string(), "content": "" });
    let mut messages = vec![json!({ "role": "assistant", "tool_calls": calls })];
    messages.extend((0..n_calls).rev().map(answer));
    let memory = load(&Value::Array(messages).to_string()).unwrap();
    let StepContent::Action(action) = &memory.steps[0] else { panic!("it is an action") };
    let ids = action.outcomes.iter().map(|outcome| outcome.tool_call_id.as_str().to_owned());
    assert!(ids.eq((0..n_calls).map(|n| n.to_string())));
}

#[test]
fn nothing_that_is_missing_is_made_up() {
    let response = |part: Value| json!([{ "kind": "response", "parts": [part] }]);
    expect(
        &response(json!({ "part_kind": "tool-call", "tool_name": "t" })),
        &[("/0/parts/0/tool_call_id", "missing_field")],
    );
    expect(
        &response(json!({ "part_kind": "tool-call", "tool_call_id": "a", "args": [] })),
        &[("/0/parts/0/tool_name", "missing_field"), ("/0/parts/0/args", "wrong_type")],
    );
    expect(
        &json!([{ "role": "assistant", "function_call": { "name": "t", "arguments": "" } }]),
        &[("/0/function_call", "unsupported_content")],
    );
    expect(
        &json!([{ "role": "assistant", "tool_calls": [{ "function": { "name": "t" } }] }]),
        &[
            ("/0/tool_calls/0/id", "missing_field"),
            ("/0/tool_calls/0/function/arguments", "missing_field"),
        ],
    );
}

#[test]
fn what_a_thread_cannot_hold_is_refused_at_its_place() {
    let video = json!({ "type": "video_url", "video_url": { "url": "https://example.com/a" } });
    let text = json!({ "type": "text", "text": "a\0" });
    expect(
        &json!([{ "role": "user", "content": [video, text] }]),
        &[("/0/content/0/type", "unsupported_content"), ("/0/content/1/text", "text_not_storable")],
    );
    let uploaded = json!({ "kind": "uploaded-file", "file_id": "f", "provider_name": "openai" });
    expect(
        &json!([{ "kind": "request", "parts": [
            { "part_kind": "user-prompt", "content": ["see", uploaded] }] }]),
        &[("/0/parts/0/content/1/kind", "unsupported_content")],
    );
    expect(&json!([{ "role": "user", "content": [] }]), &[("/0/content", "invalid_value")]);
}

#[test]
fn causes_and_endings_that_are_not_known_are_refused() {
    let part = |cause: &str| {
        json!([{ "kind": "request", "parts": [
            { "part_kind": "retry-feedback", "content": "x", "retry": { "cause": cause } }] }])
    };
    expect(&part("boredom"), &[("/0/parts/0/retry/cause", "invalid_value")]);
}

/// A document whose findings are only those of its text, for what follows.
fn mutated(text: &str, at: usize, with: &str) -> Option<String> {
    let (head, tail) = text.split_at_checked(at)?;
    let mut rest = tail.chars();
    rest.next()?;
    Some(format!("{head}{with}{}", rest.as_str()))
}

fn is_sound(read: Result<Memory, crate::domain::memory::MemoryLoadError>) -> bool {
    match read {
        // What loads can always be exported and loaded again.
        Ok(memory) => load(&export_v2(&memory)).is_ok_and(|again| again.steps == memory.steps),
        Err(error) => (1..=MAX_FINDINGS).contains(&error.findings.len()),
    }
}

proptest! {
    #[test]
    fn a_cut_or_changed_document_is_read_or_refused_and_never_panics(
        which in 0..DOCUMENTS.len() + 1, at in any::<prop::sample::Index>(), with in "[\\PC\"{}\\[\\]0-9n]{0,3}"
    ) {
        let chat = chat().to_string();
        let text = DOCUMENTS.get(which).copied().unwrap_or(&chat);
        let at = at.index(text.len());
        if let Some(changed) = mutated(text, at, &with) {
            prop_assert!(is_sound(load(&changed)), "{}", changed);
        }
        // What is cut off is at least the last bracket: line ends behind it are none of the document.
        let parts = text.trim_end().split_at_checked(at).filter(|(_, rest)| !rest.is_empty());
        if let Some((head, _)) = parts {
            let cut = load(head);
            prop_assert!(cut.is_err(), "{}", head);
        }
    }

    #[test]
    fn a_document_that_lost_or_swapped_a_value_is_read_or_refused_and_never_panics(
        which in 0..DOCUMENTS.len() + 1, at in any::<prop::sample::Index>(), with in 0usize..6
    ) {
        let chat = chat().to_string();
        let text = DOCUMENTS.get(which).copied().unwrap_or(&chat);
        let mut document: Value = serde_json::from_str(text).unwrap();
        let places = pointers(&document);
        let place = &places[at.index(places.len())];
        let others = [json!(null), json!(7), json!("x"), json!([]), json!({}), json!([{"kind":"binary"}])];
        *document.pointer_mut(place).unwrap() = others[with].clone();
        prop_assert!(is_sound(load(&document.to_string())), "{}", document);
    }
}

/// The places of all values of a document.
fn pointers(value: &Value) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Array(values) => {
            values.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect()
        }
        Value::Object(members) => members.iter().map(|(k, value)| (k.clone(), value)).collect(),
        _ => Vec::new(),
    };
    let below = |(name, value): (String, &Value)| {
        pointers(value).into_iter().map(move |rest| format!("/{name}{rest}")).collect::<Vec<_>>()
    };
    std::iter::once(String::new()).chain(children.into_iter().flat_map(below)).collect()
}
