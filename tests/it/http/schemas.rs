//! Schemas of callers that are made to do harm: refused at their place when an agent is made, or harmless.

use serde_json::{Value, json};

use crate::support::{TestApp, tool};

const COMPLEX: &str = "schema-too-complex";
const INVALID: &str = "invalid-tool-schema";
const REMOTE: &str = "remote-ref-forbidden";

type Row = (&'static str, Value, &'static str, String);

fn row(what: &'static str, schema: Value, slug: &'static str, pointer: &str) -> Row {
    (what, schema, slug, pointer.to_owned())
}

/// A schema of an object with one member.
fn member(schema: &Value) -> Value {
    json!({"type": "object", "properties": {"a": schema}})
}

fn remote() -> Vec<Row> {
    let at = |keyword: &str| format!("/properties/a/{keyword}");
    let mut rows: Vec<Row> = Vec::new();
    for target in [
        "https://evil.example/s.json",
        "http://127.0.0.1/s.json",
        "file:///etc/passwd",
        "//evil.example/s.json",
        "urn:x:y",
        "data:application/json,{}",
        "other.json#/a",
        "#anchor",
        "",
    ] {
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            rows.push(("reference", member(&json!({keyword: target})), REMOTE, at(keyword)));
        }
    }
    rows.push(row("address", member(&json!({"$id": "https://evil.example/"})), REMOTE, &at("$id")));
    rows.push(row("address", json!({"type": "object", "$id": "#a"}), REMOTE, "/$id"));
    let meta = json!({"type": "object", "$schema": "https://evil.example/schema"});
    rows.push(row("unknown dialect", meta, INVALID, ""));
    rows
}

fn nested(levels: usize) -> Value {
    let inner = (0..levels).fold(json!({}), |inner, _| json!({"not": inner}));
    json!({"type": "object", "not": inner})
}

fn large() -> Vec<Row> {
    let doubled = (0..20).fold(json!({"end": {"type": "object"}}), |mut definitions, n| {
        let next = if n == 0 { "end".to_owned() } else { format!("d{}", n - 1) };
        let next = json!({"$ref": format!("#/$defs/{next}")});
        definitions[format!("d{n}")] = json!({"allOf": [next, next]});
        definitions
    });
    let combinators = |n: usize| vec![json!({"required": ["a"]}); n];
    vec![
        row("33 levels", nested(32), COMPLEX, ""),
        row("deep combinators", nested(50), COMPLEX, ""),
        row("2,001 values", json!({"type": "object", "enum": vec![1; 1_998]}), COMPLEX, ""),
        row("bytes", json!({"type": "object", "title": "x".repeat(65_536)}), COMPLEX, ""),
        row("combinators", json!({"type": "object", "anyOf": combinators(10_000)}), COMPLEX, ""),
        row("enum", member(&json!({"enum": (0..10_000).collect::<Vec<_>>()})), COMPLEX, ""),
        row(
            "doubling",
            json!({"type": "object", "$ref": "#/$defs/d19", "$defs": doubled}),
            COMPLEX,
            "",
        ),
        row(
            "patterns",
            json!({"type": "object", "allOf": vec![json!({"pattern": "x"}); 51]}),
            COMPLEX,
            "",
        ),
        row(
            "pattern",
            member(&json!({"pattern": "x".repeat(513)})),
            COMPLEX,
            "/properties/a/pattern",
        ),
        row(
            "unbounded unique items",
            member(&json!({"uniqueItems": true})),
            COMPLEX,
            "/properties/a/uniqueItems",
        ),
        row(
            "many unique items",
            member(&json!({"uniqueItems": true, "maxItems": 1_001})),
            COMPLEX,
            "/properties/a/uniqueItems",
        ),
    ]
}

fn unsound() -> Vec<Row> {
    let pattern = |pattern: &str| member(&json!({"pattern": pattern}));
    let at = "/properties/a/pattern";
    vec![
        row("look-ahead", pattern("(?=a)b"), INVALID, at),
        row("look-behind", pattern("(?<!a)b"), INVALID, at),
        row("back reference", pattern(r"(a)\1"), INVALID, at),
        row("huge automaton", pattern("((((a{100}){100}){100}){100})"), INVALID, at),
        row("open group", pattern("("), INVALID, at),
        row("array", json!({"type": "array"}), INVALID, ""),
        row("nothing", json!({}), INVALID, ""),
        row("type", member(&json!({"type": "text"})), INVALID, "/properties/a/type"),
        row("dangling", member(&json!({"$ref": "#/$defs/none"})), INVALID, ""),
    ]
}

/// Agents that have the schema in each place where there can be one, and the places.
fn agents(app: &TestApp, schema: &Value) -> [(Value, &'static str); 3] {
    let model = json!({"provider": "scripted", "name": "m"});
    let client = json!({"kind": "client", "name": "t", "parameters": schema});
    let with = |tool: Value| json!({"name": "a", "model": model, "tools": [tool]});
    let output = json!({"name": "a", "model": model, "output_schema": schema});
    [
        (with(tool(&app.tools, "t", "pure", schema)), "/tools/0/parameters"),
        (with(client), "/tools/0/parameters"),
        (output, "/output_schema"),
    ]
}

#[tokio::test]
async fn a_hostile_schema_is_refused_at_its_place_whatever_it_is_the_schema_of() {
    let app = TestApp::start().await;
    for (what, schema, slug, pointer) in [remote(), large(), unsound()].into_iter().flatten() {
        for (agent, at) in agents(&app, &schema) {
            let problem = app.post("/v1/agents", &agent).await.expect_problem(422, slug);
            let told = problem["errors"][0]["pointer"].as_str().unwrap().to_owned();
            assert!(told.starts_with(at) && told.ends_with(&pointer), "{what}: {told}");
        }
    }
    let agents = app.get("/v1/agents").await.expect(200);
    assert_eq!(agents["items"], json!([]));
}

#[tokio::test]
async fn a_schema_at_its_bounds_is_taken() {
    let app = TestApp::start().await;
    let title = |n: usize| json!({"type": "object", "title": "x".repeat(n)});
    let spare = 65_536 - title(0).to_string().len();
    for schema in [
        nested(30),
        json!({"type": "object", "enum": vec![1; 1_997]}),
        title(spare),
        json!({"type": "object", "allOf": vec![json!({"pattern": "x"}); 50]}),
        member(&json!({"pattern": "x".repeat(512)})),
        member(&json!({"uniqueItems": true, "maxItems": 1_000})),
        member(&json!({"pattern": "^(a+)+$"})),
        member(&json!({"$ref": "#"})),
    ] {
        let agent = json!({"name": "a", "model": {"provider": "scripted", "name": "m"},
                           "tools": [tool(&app.tools, "t", "pure", &schema)]});
        let made = app.create_agent(&agent).await;
        let path = format!("/v1/agents/{}", made["id"].as_str().unwrap());
        assert_eq!(app.delete(&path).await.status / 100, 2, "{path}");
    }
}

/// A run whose model calls a tool with these arguments once.
async fn called(app: &TestApp, schema: &Value, arguments: &str) -> Value {
    let script =
        json!([{"tool_calls": [{"name": "t", "raw_arguments": arguments}]}, {"text": "Done."}]);
    let agent = json!({"name": "a", "model": {"provider": "scripted", "name": "m", "script": script},
                       "tools": [tool(&app.tools, "t", "pure", schema)]});
    let run = app.run(&agent, "Go.").await;
    assert_eq!(run["answer"], "Done.", "{run}");
    app.outcomes(&run).await.remove(0)
}

/// Arguments that do not fit, by the schema that they do not fit, and what is said of them.
fn unfit() -> Vec<(Value, String, &'static str)> {
    let text = format!("{}!", "a".repeat(500_000));
    let tree = json!({"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]});
    let anything = json!({"type": "object", "additionalProperties": true});
    let nested = |n: usize| format!("{}1{}", r#"{"x":"#.repeat(n), "}".repeat(n));
    let wide: Vec<u32> = (0..30_000).collect();
    let many = json!({"anyOf": vec![json!({"const": "x"}); 900]});
    let named: serde_json::Map<_, _> = (0..10_000).map(|n| (n.to_string(), json!(n))).collect();
    let followed = member(&json!({"pattern": "[ab]*a[ab]{4000}c"}));
    vec![
        (member(&json!({"pattern": "^(a+)+$"})), json!({"a": text}).to_string(), "/a is refused: "),
        (followed, json!({"a": text}).to_string(), "the whole is too large to be validated"),
        (tree, nested(100), "/x/x/x"),
        (anything, nested(10_000), "the arguments are not JSON: recursion limit exceeded"),
        (
            member(&json!({"items": many})),
            json!({"a": wide}).to_string(),
            "the whole is too large to be validated",
        ),
        (
            json!({"type": "object"}),
            Value::from(named).to_string(),
            "the whole has more problems than are listed",
        ),
        (member(&json!({"type": "number"})), r#"{"a":1e999}"#.to_owned(), "number out of range"),
        (
            member(&json!({"type": "string"})),
            r#"{"a":"\ud800"}"#.to_owned(),
            "the arguments are not JSON",
        ),
    ]
}

#[tokio::test]
async fn hostile_arguments_are_refused_and_the_run_goes_on() {
    let app = TestApp::with(&[("AGENTLING_BODY_LIMIT_BYTES", "8388608")]).await;
    for (schema, arguments, told) in unfit() {
        let outcome = called(&app, &schema, &arguments).await;
        assert_eq!(outcome["kind"], "invalid_arguments", "{told}");
        let message: String =
            outcome["error"]["message"].as_str().unwrap().chars().take(2_000).collect();
        assert!(message.contains(told), "{told}: {message}");
    }
    assert_eq!(app.tools.seen(), []);
}
