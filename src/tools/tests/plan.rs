//! What calls of a reply mean before anything is sent.

use serde_json::json;

use super::{agent, reply, tool, toolbox};
use crate::domain::tool::{EffectClass, OutcomeKind, PlannedCall, ToolOutput, Verdict};

fn plan(calls: &[(&str, &str)]) -> Vec<PlannedCall> {
    let properties = json!({"city": {"type": "string"}, "unit": {"enum": ["c", "f"]}});
    let fields = json!({"effect": "idempotent", "parallel_safe": false});
    let mut weather = tool("https://tool.example/{city}", &properties, &fields);
    weather["name"] = json!("weather");
    weather["parameters"]["required"] = json!(["city"]);
    let tools = json!([{"kind": "builtin", "name": "final_answer"}, weather]);
    toolbox(&[]).toolset(&agent(&tools, &json!({}))).plan(&reply(calls))
}

/// Kind and message of a call that is refused.
fn refusal(name: &str, arguments: &str) -> (OutcomeKind, String, bool) {
    let planned = plan(&[(name, arguments)]).remove(0);
    assert_eq!(planned.effect, EffectClass::Pure);
    let settled = planned.settled.unwrap();
    assert_eq!((settled.attempts, settled.started_at, settled.is_error), (0, None, true));
    (settled.kind, settled.error.unwrap().message, planned.unparsable)
}

#[test]
fn a_call_that_fits_carries_what_its_tool_declares() {
    let planned = plan(&[("weather", r#"{"city": "Rome"}"#), ("weather", r#"{"city":"Oslo"}"#)]);
    assert_eq!(planned.len(), 2);
    assert_eq!(planned[1].call_id.as_str(), "call_1");
    assert_eq!(planned[0].arguments, r#"{"city": "Rome"}"#, "the text stays as it was sent");
    assert_eq!(planned[0].effect, EffectClass::Idempotent);
    assert!(!planned[0].parallel_safe && !planned[0].unparsable && planned[0].settled.is_none());
}

#[test]
fn a_call_that_cannot_be_read_is_unparsable() {
    for (name, arguments) in [
        ("", "{}"),
        ("weather", ""),
        ("weather", "{\"city\": "),
        ("weather", "[]"),
        ("weather", "\"{}\""),
        ("weather", "null"),
        ("nope", "{"),
        ("final_answer", "42"),
    ] {
        let (kind, _, unparsable) = refusal(name, arguments);
        assert_eq!((kind, unparsable), (OutcomeKind::InvalidArguments, true), "{name} {arguments}");
    }
}

#[test]
fn every_problem_of_the_arguments_is_named_with_its_pointer() {
    let (kind, message, unparsable) = refusal("weather", r#"{"unit": "k", "a/b~": 1}"#);
    assert_eq!((kind, unparsable), (OutcomeKind::InvalidArguments, false));
    for told in [
        "/city is missing",
        "/a~1b~0 is unknown",
        "/unit is refused: the value is not one of \"c\" or \"f\"",
    ] {
        assert!(message.contains(told), "{told} in {message}");
    }
}

#[test]
fn an_unknown_tool_is_told_the_names_there_are() {
    let (kind, message, unparsable) = refusal("wether\n", "{}");
    assert_eq!((kind, unparsable), (OutcomeKind::UnknownTool, false));
    assert_eq!(message, "Unknown tool 'wether\u{fffd}'. Available: weather, final_answer");
}

#[test]
fn names_that_could_speak_to_the_model_are_left_out_of_the_list() {
    let named = |name: &str| {
        let mut tool = tool("https://tool.example/", &json!({}), &json!({}));
        tool["name"] = json!(name);
        tool
    };
    let tools = json!([named("a\nb"), named("c`d"), named("</system>"), named("plain")]);
    let set = toolbox(&[]).toolset(&agent(&tools, &json!({})));
    let settled = set.plan(&reply(&[(&"y".repeat(200), "{}")])).remove(0).settled.unwrap();
    let told = format!("Unknown tool '{}…'. Available: plain, final_answer", "y".repeat(128));
    assert_eq!(settled.error.unwrap().message, told);
}

#[test]
fn arguments_that_name_a_member_twice_are_refused_before_a_tool_can_read_them_otherwise() {
    for arguments in [r#"{"answer": "a", "answer": "b"}"#, r#"{"answer": {"x": 1, "x": ":"}}"#] {
        let (kind, message, _) = refusal("final_answer", arguments);
        assert_eq!(kind, OutcomeKind::InvalidArguments);
        assert_eq!(message, "the arguments name one member of an object twice");
    }
}

#[test]
fn a_final_answer_is_settled_at_once() {
    let settled = plan(&[("final_answer", r#"{"answer": "4\u00002"}"#)]).remove(0).settled.unwrap();
    assert_eq!((settled.kind, settled.sanitised), (OutcomeKind::Success, true));
    assert!(matches!(settled.output, Some(ToolOutput::Text(text)) if text.text == "4\u{fffd}2"));
    let (kind, message, _) = refusal("final_answer", r#"{"text": "x"}"#);
    assert_eq!(kind, OutcomeKind::InvalidArguments);
    assert!(message.contains("/answer is missing") && message.contains("/text is unknown"));
}

#[test]
fn an_output_schema_replaces_the_parameters_of_final_answer() {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let set = toolbox(&[]).toolset(&agent(&json!([]), &json!({"output_schema": schema})));
    let names: Vec<_> = set.definitions().iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["final_answer"]);
    assert_eq!(set.definitions()[0].parameters, schema);
    let settled = set.plan(&reply(&[("final_answer", r#"{"n": 1, "more": 2}"#)])).remove(0).settled;
    let output = settled.unwrap().output;
    assert!(
        matches!(output, Some(ToolOutput::Json(out)) if out.json == json!({"n": 1, "more": 2}))
    );
    let spelt = r#"{"n":12345678901234567890123,"more":1.10}"#;
    let settled = set.plan(&reply(&[("final_answer", spelt)])).remove(0).settled;
    assert!(matches!(settled.unwrap().output, Some(ToolOutput::Json(out)) if out.text() == spelt));
}

#[test]
fn definitions_keep_their_order_and_their_schemas() {
    let named = |name: &str| {
        let mut tool = tool("https://tool.example/", &json!({}), &json!({}));
        tool["name"] = json!(name);
        tool
    };
    let tools = json!([named("z"), {"kind": "builtin", "name": "final_answer"}, named("a")]);
    let set = toolbox(&[]).toolset(&agent(&tools, &json!({})));
    let names: Vec<_> = set.definitions().iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["z", "a", "final_answer"]);
    assert_eq!(set.definitions()[0].parameters, json!({"type": "object", "properties": {}}));
}

#[test]
fn a_text_answer_is_judged_by_the_output_schema() {
    let plain = toolbox(&[]).toolset(&agent(&json!([]), &json!({})));
    assert_eq!(plain.verdict("anything"), None);
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let set = toolbox(&[]).toolset(&agent(&json!([]), &json!({"output_schema": schema})));
    assert_eq!(set.verdict(r#" {"n": 1} "#), Some(Verdict::Fits(json!({"n": 1}))));
    let fails = |text: &str| match set.verdict(text) {
        Some(Verdict::Fails(details)) => details,
        other => panic!("{other:?}"),
    };
    let missing = fails("{}");
    assert_eq!((missing[0].r#type.as_str(), &missing[0].loc), ("missing", &vec![json!("n")]));
    let wrong = fails(r#"{"n": "x"}"#);
    assert_eq!((wrong[0].r#type.as_str(), wrong[0].input.clone()), ("type", Some(json!("x"))));
    let fenced = fails("```json\n{\"n\": 1}\n```");
    assert_eq!(fenced[0].r#type, "json_invalid");
}

/// Whether somebody is asked about a call with these arguments, by the approval of its tool.
fn asks(approval: &serde_json::Value, arguments: &str) -> bool {
    let properties = json!({"amount": {}, "to": {}});
    let pay = tool("https://tool.example/", &properties, &json!({"approval": approval}));
    let planned = toolbox(&[]).toolset(&agent(&json!([pay]), &json!({})));
    planned.plan(&reply(&[("probe", arguments)])).remove(0).waits.approval
}

#[test]
fn whether_somebody_is_asked_depends_on_the_arguments_where_the_tool_says_so() {
    let large = json!({"when": "/amount > 100 or /to contains '@'"});
    for (approval, arguments, expected) in [
        (json!("never"), r#"{"amount":1000}"#, false),
        (json!("always"), "{}", true),
        (large.clone(), r#"{"amount":100,"to":"ann"}"#, false),
        (large.clone(), r#"{"amount":101,"to":"ann"}"#, true),
        (large.clone(), r#"{"amount":1,"to":"ann@evil"}"#, true),
        // What it depends on is missing, of another type, or rounded to the bound.
        (large.clone(), r#"{"to":"ann"}"#, true),
        (large.clone(), r#"{"amount":1}"#, true),
        (large.clone(), r#"{"amount":"1000","to":"ann"}"#, true),
        (large.clone(), r#"{"amount":[1],"to":"ann"}"#, true),
        (large, r#"{"amount":100.00000000000000001,"to":"ann"}"#, true),
        // A condition that cannot be read, of an agent that another version stored.
        (json!({"when": "amount >> 1"}), r#"{"amount":1}"#, true),
    ] {
        assert_eq!(asks(&approval, arguments), expected, "{approval} {arguments}");
    }
}

#[test]
fn a_call_that_is_refused_waits_for_nobody() {
    assert!(!asks(&json!("always"), r#"{"nothing": 1}"#));
}
