//! What is found when an agent is made.

use serde_json::{Value, json};

use super::{agent, tool};
use crate::egress::EgressPolicy;
use crate::tools::{SpecProblem, check_spec};

fn found(tools: &Value, fields: &Value) -> Vec<(SpecProblem, String)> {
    check_spec(&agent(tools, fields), &EgressPolicy::default())
        .into_iter()
        .map(|finding| (finding.code, finding.pointer))
        .collect()
}

/// What is found about one tool with these fields.
fn about(fields: &Value) -> Vec<(SpecProblem, String)> {
    found(&json!([tool("https://tool.example/{a}", &json!({"a": {}}), fields)]), &json!({}))
}

#[test]
fn a_sound_agent_has_no_findings() {
    assert_eq!(
        about(&json!({"headers": {"X-A": "1"}, "output_path": "/a~1b", "timeout_ms": 10})),
        []
    );
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let broken = json!({
        "kind": "http",
        "name": "a b",
        "description": "x".repeat(4_097),
        "parameters": {"type": "object", "properties": {"a": {"type": "nonsense"}}},
        "url": "http://127.0.0.1/{b}",
        "headers": {"Host": "x", "bad name": "x", "X-Ok": "a\r\nb"},
        "timeout_ms": 3_600_001,
        "max_output_chars": 0,
        "output_path": "a~2",
    });
    let taken = tool("https://tool.example/", &json!({}), &json!({"name": "a b"}));
    let reserved = tool("https://tool.example/", &json!({}), &json!({"name": "load_skill"}));
    let output = json!({"output_schema": {"type": "object", "$ref": "https://evil.example/"}});
    let expected = [
        (SpecProblem::Invalid, "/tools/0/name"),
        (SpecProblem::Invalid, "/tools/0/description"),
        (SpecProblem::InvalidToolSchema, "/tools/0/parameters/properties/a/type"),
        (SpecProblem::EgressDenied, "/tools/0/url"),
        (SpecProblem::Invalid, "/tools/0/url"),
        (SpecProblem::InvalidHeaderName, "/tools/0/headers/Host"),
        (SpecProblem::InvalidHeaderName, "/tools/0/headers/bad name"),
        (SpecProblem::InvalidHeaderName, "/tools/0/headers/X-Ok"),
        (SpecProblem::Invalid, "/tools/0/timeout_ms"),
        (SpecProblem::Invalid, "/tools/0/max_output_chars"),
        (SpecProblem::Invalid, "/tools/0/output_path"),
        (SpecProblem::ToolNameConflict, "/tools/1/name"),
        (SpecProblem::Invalid, "/tools/1/name"),
        (SpecProblem::Invalid, "/tools/2/name"),
        (SpecProblem::RemoteRefForbidden, "/output_schema/$ref"),
    ];
    let expected: Vec<_> = expected.map(|(code, at)| (code, at.to_owned())).into();
    assert_eq!(found(&json!([broken, taken, reserved]), &output), expected);
}

#[test]
fn names_are_plain_and_bounded() {
    let long = "x".repeat(65);
    for name in ["", "a b", "</system>", "gеt", "a.b", "final_answer", long.as_str()] {
        let expected = [(SpecProblem::Invalid, "/tools/0/name".to_owned())];
        assert_eq!(about(&json!({"name": name})), expected, "{name}");
    }
    assert_eq!(about(&json!({"name": "x".repeat(64)})), []);
}

#[test]
fn schemas_are_of_objects() {
    for parameters in [json!({}), json!({"type": "array"}), json!(true), json!([]), json!("object")]
    {
        let expected = [(SpecProblem::InvalidToolSchema, "/tools/0/parameters".to_owned())];
        let fields = json!({"parameters": parameters, "url": "https://tool.example/"});
        assert_eq!(about(&fields), expected, "{parameters}");
    }
    let dangling = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}});
    assert_eq!(about(&json!({"parameters": dangling}))[0].0, SpecProblem::InvalidToolSchema);
}

#[test]
fn urls_that_lead_nowhere_a_tool_may_go_are_refused_with_the_rule_only() {
    for url in ["tool.example", "https:///x", "http://tool.example/", "https://u:p@tool.example/"] {
        let spec = agent(&json!([tool(url, &json!({}), &json!({}))]), &json!({}));
        let findings = check_spec(&spec, &EgressPolicy::default());
        assert_eq!(findings.len(), 1, "{url}");
        assert_eq!(findings[0].code, SpecProblem::EgressDenied, "{url}");
        assert!(findings[0].message.starts_with("egress-denied: "), "{url}");
    }
}

#[test]
fn headers_of_the_server_are_reserved_in_any_case() {
    for name in [
        "Host",
        "CONTENT-LENGTH",
        "Transfer-Encoding",
        "connection",
        "Proxy-Authorization",
        "Authorization",
        "Idempotency-Key",
        "Agentling-Fence",
        "te",
        "Upgrade",
    ] {
        let expected = [(SpecProblem::InvalidHeaderName, format!("/tools/0/headers/{name}"))];
        assert_eq!(about(&json!({"headers": {name: "x"}})), expected, "{name}");
    }
    assert_eq!(about(&json!({"headers": {"X-A": "1", "x-a": "2"}})).len(), 1, "one name, twice");
}

#[test]
fn an_agent_has_at_most_128_tools() {
    let tools = |n: usize| -> Value {
        (0..n)
            .map(|n| tool("https://tool.example/", &json!({}), &json!({"name": format!("t{n}")})))
            .collect()
    };
    assert_eq!(found(&tools(128), &json!({})), []);
    assert_eq!(found(&tools(129), &json!({})), [(SpecProblem::Invalid, "/tools".to_owned())]);
}
