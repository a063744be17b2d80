//! Every finding has its code and its exact place.

use crate::domain::memory::{MAX_FINDINGS, MAX_STEPS, export_v1, export_v2, load};

/// Ids of calls, their outcomes, what is found.
type Case<'a> = (&'a [&'a str], Vec<String>, &'a [(&'a str, &'a str)]);

fn findings(text: &str) -> Vec<(String, String)> {
    let error = load(text).unwrap_err();
    assert!(error.findings.len() <= MAX_FINDINGS);
    error.findings.into_iter().map(|finding| (finding.pointer, finding.code)).collect()
}

fn expect(text: &str, expected: &[(&str, &str)]) {
    let found = findings(text);
    let found: Vec<(&str, &str)> = found.iter().map(|(p, c)| (p.as_str(), c.as_str())).collect();
    assert_eq!(found, expected, "{text}");
}

fn v2(steps: &str) -> String {
    format!(r#"{{"version":2,"thread":{{}},"steps":[{steps}]}}"#)
}

fn outcome(id: &str, rest: &str) -> String {
    format!(
        r#"{{"tool_call_id":"{id}","name":"t","is_error":false,"kind":"success","attempts":1{rest}}}"#
    )
}

fn action(calls: &[&str], outcomes: &[String]) -> String {
    let calls: Vec<String> = calls
        .iter()
        .map(|id| {
            format!(
                r#"{{"part_kind":"tool_call","tool_call_id":"{id}","name":"t","arguments":"{{}}"}}"#
            )
        })
        .collect();
    format!(
        r#"{{"kind":"action","reply":{{"state":"complete","parts":[{}]}},"outcomes":[{}]}}"#,
        calls.join(","),
        outcomes.join(",")
    )
}

fn v1_action(call: &str, result: &str) -> String {
    format!(
        r#"{{"version":1,"steps":[{{"type":"action","data":{{"model_message":{{"role":"assistant","content":"",
        "tool_calls":[{call}],"tool_call_id":null,"usage":null}},"tool_results":[{result}],
        "error":null,"usage":null,"duration":null}}}}]}}"#
    )
}

#[test]
fn a_text_that_is_not_json_is_not_json() {
    for text in
        ["", "{", "nope", "{\"version\":2,}", "{} {}", "\u{feff}{}", "{\"a\":NaN}", "{\"a\":01}"]
    {
        expect(text, &[("", "not_json")]);
    }
}

#[test]
fn json_that_is_not_an_object_is_not_an_object() {
    for text in ["[]", "null", "2", "\"x\"", " true "] {
        expect(text, &[("", "not_an_object")]);
    }
}

#[test]
fn a_version_from_elsewhere_is_named_as_such() {
    for version in ["0", "3", "-1", "18446744073709551615", "99999999999999999999999"] {
        let text = format!(r#"{{"version":{version},"steps":7}}"#);
        let error = load(&text).unwrap_err();
        assert!(error.unsupported_version, "{version}");
        expect(&text, &[("/version", "unsupported_version")]);
    }
    for version in ["\"2\"", "2.0", "null", "[2]", "true", "2e0"] {
        let text = format!(r#"{{"version":{version},"thread":{{}},"steps":[]}}"#);
        assert!(!load(&text).unwrap_err().unsupported_version, "{version}");
        expect(&text, &[("/version", "wrong_type")]);
    }
}

#[test]
fn missing_unknown_and_mistyped_members_are_all_found_at_once() {
    expect(
        r#"{"version":2,"extra":1,"steps":[
            {"kind":"task"},
            {"kind":"system","text":1,"a/b~c":0},
            {"kind":"final","answer":null,"stop_reason":7},
            {"kind":"task","parts":[]},
            {"text":"no kind"}]}"#,
        &[
            ("/thread", "missing_field"),
            ("/steps/0/parts", "missing_field"),
            ("/steps/1/text", "wrong_type"),
            ("/steps/1/a~1b~0c", "unknown_field"),
            ("/steps/2/answer", "wrong_type"),
            ("/steps/2/stop_reason", "wrong_type"),
            ("/steps/3/parts", "invalid_value"),
            ("/steps/4/kind", "missing_field"),
            ("/extra", "unknown_field"),
        ],
    );
}

#[test]
fn a_block_of_context_says_which_it_is_and_its_text_or_null() {
    let steps = [
        r#"{"kind":"context","id":"a","text":null}"#,
        r#"{"kind":"context","id":"a"}"#,
        r#"{"kind":"context","text":"x"}"#,
        r#"{"kind":"context","id":"A b","text":1}"#,
    ];
    expect(
        &v2(&steps.join(",")),
        &[
            ("/steps/1/text", "missing_field"),
            ("/steps/2/id", "missing_field"),
            ("/steps/3/id", "invalid_value"),
            ("/steps/3/text", "wrong_type"),
        ],
    );
}

#[test]
fn unknown_kinds_are_found_at_their_tag() {
    let reply = r#"{"kind":"action","reply":{"state":"complete","parts":[{"part_kind":"video"}]}}"#;
    let outcome = outcome("c", r#","output":{"output_kind":"xml"}"#);
    let steps = [
        r#"{"kind":"dream"}"#,
        r#"{"kind":"task","parts":[{"part_kind":"smell","x":1}]}"#,
        reply,
        &action(&["c"], &[outcome]),
    ];
    expect(
        &v2(&steps.join(",")),
        &[
            ("/steps/0/kind", "unknown_kind"),
            ("/steps/1/parts/0/part_kind", "unknown_kind"),
            ("/steps/2/reply/parts/0/part_kind", "unknown_kind"),
            ("/steps/3/outcomes/0/output/output_kind", "unknown_kind"),
        ],
    );
}

#[test]
fn labels_times_and_numbers_out_of_range_are_invalid_values() {
    let reply = r#"{"kind":"action","reply":{"provider":"pigeon","state":"complete","finish_reason":"tired",
        "usage":{"input":-1,"output":1.5},"parts":[]}}"#;
    let result =
        outcome("c", r#","started_at":"yesterday","output":{"output_kind":"json","json":1e999}"#);
    expect(
        &v2(&format!("{reply},{}", action(&["c"], &[result]))),
        &[
            ("/steps/0/reply/provider", "invalid_value"),
            ("/steps/0/reply/finish_reason", "invalid_value"),
            ("/steps/0/reply/usage/input", "invalid_value"),
            ("/steps/0/reply/usage/output", "wrong_type"),
            ("/steps/1/outcomes/0/output/json", "invalid_value"),
            ("/steps/1/outcomes/0/started_at", "invalid_value"),
        ],
    );
}

#[test]
fn outcomes_that_contradict_themselves_are_invalid_values() {
    let success = r#""kind":"success","is_error":true,"error":{"type":"T","message":""}"#;
    let failure = r#""kind":"timeout","is_error":false,"output":{"output_kind":"text","text":""}"#;
    let [first, second] = [("a", success), ("b", failure)]
        .map(|(id, facts)| format!(r#"{{"tool_call_id":"{id}","name":"t","attempts":1,{facts}}}"#));
    expect(
        &v2(&action(&["a", "b"], &[first, second])),
        &[
            ("/steps/0/outcomes/0/is_error", "invalid_value"),
            ("/steps/0/outcomes/0/error", "invalid_value"),
            ("/steps/0/outcomes/1/is_error", "invalid_value"),
            ("/steps/0/outcomes/1/output", "invalid_value"),
        ],
    );
}

#[test]
fn calls_and_outcomes_must_pair_one_to_one_and_in_order() {
    let [a, b] = ["a", "b"].map(|id| outcome(id, ""));
    let call = "/steps/0/reply/parts/1/tool_call_id";
    let cases: [Case<'_>; 5] = [
        (&["a", "b"], vec![a.clone()], &[(call, "unpaired_call")]),
        (
            &["a"],
            vec![a.clone(), b.clone()],
            &[("/steps/0/outcomes/1/tool_call_id", "unpaired_call")],
        ),
        (
            &["a"],
            vec![a.clone(), a.clone()],
            &[("/steps/0/outcomes/1/tool_call_id", "unpaired_call")],
        ),
        (
            &["a", "b"],
            vec![b.clone(), a.clone()],
            &[("/steps/0/outcomes/0/tool_call_id", "unpaired_call")],
        ),
        (
            &["a", "c"],
            vec![a, b],
            &[(call, "unpaired_call"), ("/steps/0/outcomes/1/tool_call_id", "unpaired_call")],
        ),
    ];
    for (calls, outcomes, expected) in cases {
        expect(&v2(&action(calls, &outcomes)), expected);
    }
}

#[test]
fn a_call_id_is_used_once_in_a_whole_document() {
    let step = action(&["a"], &[outcome("a", "")]);
    expect(
        &v2(&format!("{step},{step}")),
        &[("/steps/1/reply/parts/0/tool_call_id", "duplicate_call_id")],
    );
    let long = "x".repeat(129);
    for id in ["", &long] {
        expect(
            &v2(&action(&[id], &[outcome(id, "")])),
            &[
                ("/steps/0/reply/parts/0/tool_call_id", "invalid_value"),
                ("/steps/0/outcomes/0/tool_call_id", "invalid_value"),
            ],
        );
    }
}

#[test]
fn an_outcome_has_the_name_of_its_call() {
    let other = outcome("a", "").replace(r#""name":"t""#, r#""name":"u""#);
    expect(&v2(&action(&["a"], &[other])), &[("/steps/0/outcomes/0/name", "invalid_value")]);
}

#[test]
fn text_that_cannot_be_stored_is_found_wherever_it_is() {
    let raw = r#"{"part_kind":"unknown","raw":{"x":[1,"\ud800"],"a\u0000b":1}}"#;
    let steps = [
        r#"{"kind":"system","text":"a\u0000b"}"#,
        &format!(r#"{{"kind":"action","reply":{{"state":"complete","parts":[{raw}]}}}}"#),
    ];
    expect(
        &v2(&steps.join(",")),
        &[
            ("/steps/0/text", "text_not_storable"),
            ("/steps/1/reply/parts/0/raw/a\u{0}b", "text_not_storable"),
            ("/steps/1/reply/parts/0/raw/x/1", "text_not_storable"),
        ],
    );
    expect(
        &v1_action(r#"{"id":"c","name":"t","arguments":{"q":"\u0000"}}"#, ""),
        &[("/steps/0/data/model_message/tool_calls/0/arguments/q", "text_not_storable")],
    );
}

#[test]
fn a_name_given_twice_is_a_duplicate_key() {
    expect(
        &v2(r#"{"kind":"system","text":"a","text":"b"}"#),
        &[("/steps/0/text", "duplicate_key")],
    );
    expect(
        r#"{"version":2,"version":2,"thread":{"metadata":{"a":"1","a":"2"}},"steps":[]}"#,
        &[("/version", "duplicate_key"), ("/thread/metadata/a", "duplicate_key")],
    );
}

#[test]
fn labels_of_a_thread_are_bounded() {
    let many: Vec<String> = (0..51).map(|i| format!(r#""k{i}":"""#)).collect();
    let text = |labels: &str| {
        format!(r#"{{"version":2,"thread":{{"metadata":{{{labels}}}}},"steps":[]}}"#)
    };
    expect(&text(&many.join(",")), &[("/thread/metadata", "invalid_value")]);
    let long = format!(r#""k":"{}""#, "x".repeat(513));
    expect(&text(&long), &[("/thread/metadata/k", "invalid_value")]);
}

#[test]
fn redactions_are_an_object_of_nothing_yet() {
    expect(
        r#"{"version":2,"thread":{},"steps":[],"redactions":{"x":1},"framing_policy":"loose"}"#,
        &[("/redactions/x", "unknown_field"), ("/framing_policy", "invalid_value")],
    );
}

#[test]
fn version_1_is_read_as_strictly() {
    expect(
        r#"{"version":1,"thread":{},"steps":[
            {"type":"task","data":{"task":["a"],"parts":[]}},
            {"type":"retry","data":{}},
            {"type":"final"},
            {"type":"action","data":{"model_message":{"role":"robot","content":1,"tool_calls":{}},"duration":"1s"}}]}"#,
        &[
            ("/steps/0/data/task", "wrong_type"),
            ("/steps/0/data/parts", "unknown_field"),
            ("/steps/1/type", "unknown_kind"),
            ("/steps/2/data", "missing_field"),
            ("/steps/3/data/model_message/role", "invalid_value"),
            ("/steps/3/data/model_message/content", "wrong_type"),
            ("/steps/3/data/model_message/tool_calls", "wrong_type"),
            ("/steps/3/data/model_message/tool_call_id", "missing_field"),
            ("/steps/3/data/model_message/usage", "missing_field"),
            ("/steps/3/data/tool_results", "missing_field"),
            ("/steps/3/data/error", "missing_field"),
            ("/steps/3/data/usage", "missing_field"),
            ("/steps/3/data/duration", "wrong_type"),
            ("/thread", "unknown_field"),
        ],
    );
    expect(r#"{"version":1}"#, &[("/steps", "missing_field")]);
}

#[test]
fn version_1_calls_and_results_are_held_to_the_same_rules() {
    let call = r#"{"id":"c","name":"t","arguments":{}}"#;
    let at = "/steps/0/data/model_message/tool_calls/0";
    let of = "/steps/0/data/tool_results/0";
    expect(&v1_action(call, ""), &[(&format!("{at}/id"), "unpaired_call")]);
    expect(
        &v1_action(&call.replace("{}", "\"{}\""), ""),
        &[(&format!("{at}/arguments"), "wrong_type")],
    );
    let result =
        |facts: &str| format!(r#"{{"tool_call_id":"c","name":"t","content":"x",{facts}}}"#);
    let kind = format!("{of}/error_kind");
    let odd = result(r#""is_error":true,"error_kind":"bad_luck""#);
    expect(&v1_action(call, &odd), &[(&kind, "unknown_kind")]);
    let odd = result(r#""is_error":false,"error_kind":"timeout""#);
    expect(&v1_action(call, &odd), &[(&kind, "invalid_value")]);
    let orphan = result(r#""is_error":false"#);
    expect(&v1_action("", &orphan), &[(&format!("{of}/tool_call_id"), "unpaired_call")]);
}

#[test]
fn at_most_twenty_findings_are_listed() {
    let steps = vec![r#"{"kind":"system"}"#; 1_000];
    let found = findings(&v2(&steps.join(",")));
    assert_eq!(found.len(), MAX_FINDINGS);
    assert_eq!(found[19], ("/steps/19/text".to_owned(), "missing_field".to_owned()));
}

#[test]
fn too_many_steps_are_refused_before_any_is_read() {
    let steps = vec!["0"; MAX_STEPS + 1];
    expect(&v2(&steps.join(",")), &[("/steps", "too_many_steps")]);
}

/// A document with one JSON output of these fields.
fn with_json(fields: &str) -> String {
    let output = format!(r#","output":{{"output_kind":"json",{fields}}}"#);
    let outcome = format!(
        r#"{{"tool_call_id":"c","name":"t","is_error":false,"kind":"success","attempts":1{output}}}"#
    );
    format!(r#"{{"version":2,"thread":{{}},"steps":[{}]}}"#, action(&["c"], &[outcome]))
}

#[test]
fn the_spelling_of_json_output_has_to_spell_its_value() {
    for exact in ["1.2", "", "{", "[1.1]", r#"\"1.1\""#] {
        let text = with_json(&format!(r#""json":1.1,"exact":"{exact}""#));
        expect(&text, &[("/steps/0/outcomes/0/output/exact", "invalid_value")]);
    }
}

#[test]
fn the_spelling_of_json_output_is_kept_and_taken_from_its_value_where_there_is_none() {
    let spelt =
        with_json(r#""json":[1.1,1.2345678901234568e22],"exact":"[1.10,12345678901234567890123]""#);
    let exported = export_v2(&load(&spelt).unwrap());
    assert!(exported.contains(r#""exact":"[1.10,12345678901234567890123]""#), "{exported}");
    let unspelt = with_json(r#""json":[1.10, 12345678901234567890123]"#);
    assert_eq!(export_v2(&load(&unspelt).unwrap()), exported);
    let old = export_v1(&load(&spelt).unwrap(), true).unwrap();
    assert!(old.contains(r#""content":"[1.10,12345678901234567890123]""#), "{old}");
}
