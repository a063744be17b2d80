//! What a mender does with calls and outcomes that do not belong together, in every format.

use serde_json::{Value, json};

use crate::domain::memory::{Loaded, load, load_with};
use crate::domain::step::StepContent;

/// How the calls of the history ended, in order, and what was mended.
fn mended(document: &Value) -> (Vec<String>, Vec<String>) {
    let text = document.to_string();
    assert!(load(&text).is_err(), "{text}");
    let Loaded { memory, repairs, .. } = load_with(&text, true).unwrap();
    let actions = memory.steps.iter().filter_map(|step| {
        if let StepContent::Action(action) = step { Some(action) } else { None }
    });
    let outcomes = actions.flat_map(|action| &action.outcomes);
    let endings = outcomes.map(|o| format!("{} {}", o.tool_call_id.0, o.kind)).collect();
    assert_eq!(repairs.total, repairs.items.len());
    (endings, repairs.items.into_iter().map(|it| format!("{} {}", it.code, it.pointer)).collect())
}

#[test]
fn a_document_of_version_1() {
    let call = |id: &str| json!({ "id": id, "name": "t", "arguments": {} });
    let result = |id: &str| json!({ "tool_call_id": id, "name": "t", "content": "x" });
    let action = |calls: Value, results: Value| {
        json!({ "type": "action", "data": { "model_message": { "role": "assistant", "content": null,
                "tool_calls": calls, "tool_call_id": null, "usage": null }, "tool_results": results,
                "error": null, "usage": null, "duration": null } })
    };
    let document = json!({ "version": 1, "steps": [
        action(json!([call("a"), call("b")]), json!([result("b"), result("c")])),
    ] });
    let (endings, repairs) = mended(&document);
    assert_eq!(endings, ["a interrupted", "b success"]);
    assert_eq!(
        repairs,
        [
            "orphan_outcome /steps/0/data/tool_results/1/tool_call_id",
            "unanswered_call /steps/0/data/model_message/tool_calls/0/id",
        ]
    );
}

#[test]
fn a_list_of_chat_messages() {
    let call = |id: &str| {
        json!({ "id": id, "type": "function",
                                  "function": { "name": "t", "arguments": "{}" } })
    };
    let result = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": "x" });
    let document = json!([
        result("a"),
        { "role": "assistant", "tool_calls": [call("a"), call("b")] },
        result("b"),
        result("b"),
        { "role": "user", "content": "Go on." },
    ]);
    let (endings, repairs) = mended(&document);
    assert_eq!(endings, ["a interrupted", "b success"]);
    assert_eq!(
        repairs,
        [
            "orphan_outcome /0/tool_call_id",
            "duplicate_outcome /3/tool_call_id",
            "unanswered_call /1/tool_calls/0/id",
        ]
    );
}

#[test]
fn a_list_of_pydantic_ai_messages() {
    let document = json!([
        { "kind": "response", "parts": [
            { "part_kind": "tool-call", "tool_name": "t", "args": "{}", "tool_call_id": "a" }] },
        { "kind": "request", "parts": [
            { "part_kind": "tool-return", "tool_name": "t", "content": "x", "tool_call_id": "z" }] },
    ]);
    let (endings, repairs) = mended(&document);
    assert_eq!(endings, ["a interrupted"]);
    assert_eq!(
        repairs,
        ["orphan_outcome /1/parts/0/tool_call_id", "unanswered_call /0/parts/0/tool_call_id"]
    );
}

#[test]
fn what_only_a_guess_could_mend_is_refused() {
    let call =
        json!({ "part_kind": "tool_call", "tool_call_id": "a", "name": "t", "arguments": "" });
    let outcome = json!({ "tool_call_id": "a", "name": "other", "is_error": false,
                          "kind": "success", "attempts": 1 });
    let action = |outcomes: Value| {
        json!({ "kind": "action", "reply": { "state": "complete", "parts": [call] },
                "outcomes": outcomes })
    };
    for steps in [
        // Two calls with one id.
        json!([action(json!([])), action(json!([]))]),
        // An outcome of another tool.
        json!([action(json!([outcome]))]),
        json!([{ "kind": "dream" }]),
    ] {
        let document = json!({ "version": 2, "thread": {}, "steps": steps }).to_string();
        assert!(load_with(&document, true).is_err(), "{document}");
    }
}

#[test]
fn what_a_history_has_no_place_for_is_listed_once_and_read_members_are_not() {
    let document = json!([
        { "role": "user", "name": "Ann", "content": [
            { "type": "image_url", "image_url": { "url": "https://a.example/b.png", "detail": "low" } }] },
        { "role": "assistant", "content": "Hi.", "annotations": [] },
    ]);
    let losses = load_with(&document.to_string(), false).unwrap().losses;
    let mut pointers: Vec<String> = losses.items.into_iter().map(|it| it.pointer).collect();
    pointers.sort();
    assert_eq!(pointers, ["/0/content/0/image_url/detail", "/0/name", "/1/annotations"]);
}
