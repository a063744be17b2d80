//! Bad inputs as data: what each gets, and that none changes anything.
//!
//! Bad agents, threads and memory documents have their rows beside their endpoints, and what every
//! operation refuses alike is in `walk`.

use std::collections::BTreeSet;

use agentling::http::openapi_document;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};

use super::{pointers, speaker};
use crate::support::{Answer, TestApp, mint_key, send_raw, stored};

pub(super) const JSON: (&str, &[u8]) = ("content-type", b"application/json");
pub(super) const INVALID: &str = "validation-failed";

/// One bad input and what it gets.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// The row of the table of bad inputs that it stands for, and what it is.
    id: String,
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Vec<u8>,
    status: u16,
    slug: &'static str,
    /// Where it is wrong, if that is known.
    pointer: Option<&'static str>,
}

impl Row {
    pub(super) fn new(
        id: &str,
        (method, path): (&'static str, &str),
        (status, slug): (u16, &'static str),
    ) -> Self {
        let path = path.to_owned();
        let id = id.to_owned();
        Self { id, method, path, headers: vec![], body: vec![], status, slug, pointer: None }
    }

    pub(super) fn header(mut self, (name, value): (&'static str, &[u8])) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(super) fn json(self, body: &(impl ToString + ?Sized)) -> Self {
        Self { body: body.to_string().into_bytes(), ..self.header(JSON) }
    }

    pub(super) fn at(self, pointer: &'static str) -> Self {
        Self { pointer: Some(pointer), ..self }
    }

    /// The same where a place may be named: an empty pointer names none.
    pub(super) fn at_any(self, pointer: &'static str) -> Self {
        if pointer.is_empty() { self } else { self.at(pointer) }
    }

    async fn send(&self, app: &TestApp) -> Answer {
        let request = app.request(self.method, &self.path);
        let request = self.headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, HeaderValue::from_bytes(value).unwrap())
        });
        app.send(request.body(self.body.clone())).await
    }

    /// What is wrong with an answer.
    fn finding(&self, answer: &Answer) -> Option<String> {
        let problem = answer.json();
        let found = pointers(&problem);
        let is_right = (answer.status, answer.slug().as_str()) == (self.status, self.slug)
            && answer.header("content-type") == "application/problem+json"
            && self.pointer.is_none_or(|pointer| found.contains(&pointer));
        let Self { id, method, path, status, slug, pointer, .. } = self;
        let wanted = format!("{id}: {method} {path}: not {status} {slug} at {pointer:?}");
        (!is_right).then(|| format!("{wanted} but {} {}", answer.status, answer.text))
    }
}

/// Sends every row; fails with all that went wrong, or when anything that is stored has changed.
pub(super) async fn check(app: &TestApp, rows: impl IntoIterator<Item = Row>) {
    let before = stored(&app.db).await;
    let (mut n, mut wrong) = (0, Vec::new());
    for row in rows {
        n += 1;
        wrong.extend(row.finding(&row.send(app).await));
    }
    assert!(n > 0);
    assert!(wrong.is_empty(), "{} of {n} rows\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(stored(&app.db).await, before);
}

/// Paths to a finished run, to its thread, and to an archived agent.
struct There {
    run: String,
    thread: String,
    archived: String,
}

async fn there(app: &TestApp) -> There {
    let path = |to: &str, id: &Value| format!("/v1/{to}/{}", id.as_str().unwrap());
    app.create_agent(&speaker("a", "Hello.")).await;
    let archived = app.create_agent(&speaker("old", "Hello.")).await["id"].clone();
    assert_eq!(app.delete(&path("agents", &archived)).await.status, 204);
    let run = app.run_body(&json!({ "agent_id": "a", "input": "hi" })).await;
    There {
        run: path("runs", &run["id"]),
        thread: path("threads", &run["thread_id"]),
        archived: archived.as_str().unwrap().to_owned(),
    }
}

/// Every endpoint that takes an ordinary JSON body.
fn endpoints(there: &There) -> Vec<(&'static str, String)> {
    vec![
        ("POST", "/v1/agents".to_owned()),
        ("PUT", "/v1/agents/a".to_owned()),
        ("POST", "/v1/threads".to_owned()),
        ("POST", "/v1/runs".to_owned()),
        ("POST", "/v1/runs/stream".to_owned()),
        ("POST", format!("{}/cancel", there.run)),
        ("POST", format!("{}/interrupt", there.run)),
        ("POST", format!("{}/resume", there.run)),
    ]
}

const MALFORMED: (u16, &str) = (400, "malformed-json");
const OUT_OF_RANGE: (u16, &str) = (400, "json-number-out-of-range");

/// A body by what is wrong with it: status and slug that it gets, and where it is wrong.
type BadBody<T> = (String, T, (u16, &'static str), Option<&'static str>);

/// Bodies that no endpoint takes.
fn bodies() -> Vec<BadBody<Vec<u8>>> {
    let rows = texts().into_iter();
    let rows = rows.map(|(id, body, expect, pointer)| (id.to_owned(), body, expect, pointer));
    rows.collect()
}

/// A row of a body, its name still a literal.
type Text = (&'static str, Vec<u8>, (u16, &'static str), Option<&'static str>);

fn texts() -> Vec<Text> {
    let deep = |n: usize| format!("{{\"x\":{}{}}}", "[".repeat(n), "]".repeat(n)).into_bytes();
    let text = |text: &str| text.as_bytes().to_vec();
    let keys: Vec<String> = (0..10_000).map(|n| format!("\"k{n}\":\"v\"")).collect();
    vec![
        ("B-01 white space", text(" \n"), MALFORMED, None),
        ("B-02 breaks off", text("{"), MALFORMED, None),
        ("B-02 trailing comma", text(r#"{"x":1,}"#), MALFORMED, None),
        ("B-02 bytes after the value", text("{} x"), MALFORMED, None),
        ("B-02 two values", text("{}{}"), MALFORMED, None),
        ("B-03 array", text("[]"), (422, INVALID), Some("")),
        ("B-03 text", text("\"x\""), (422, INVALID), Some("")),
        ("B-03 null", text("null"), (422, INVALID), Some("")),
        ("B-03 number", text("1"), (422, INVALID), Some("")),
        ("B-04 invalid byte", b"{\"x\":\"\xff\"}".to_vec(), (400, "invalid-utf8"), None),
        ("B-04 UTF-16", b"\xff\xfe{\0}\0".to_vec(), (400, "invalid-utf8"), None),
        ("B-04 byte order mark", b"\xef\xbb\xbf".to_vec(), MALFORMED, None),
        ("B-04 byte order mark before JSON", b"\xef\xbb\xbf{}".to_vec(), MALFORMED, None),
        ("B-05 depth 65", deep(64), (400, "json-too-deep"), None),
        ("B-05 depth 100,000", deep(100_000), (400, "json-too-deep"), None),
        (
            "B-05 depth 100,000, open",
            "[".repeat(100_000).into_bytes(),
            (400, "json-too-deep"),
            None,
        ),
        ("B-06 key twice", text(r#"{"x":1,"x":1}"#), MALFORMED, None),
        ("B-06 key twice, nested", text(r#"{"x":[{"y":1,"y":2}]}"#), MALFORMED, None),
        ("B-06 key twice, escaped", text(r#"{"x":1,"\u0078":1}"#), MALFORMED, None),
        ("B-07 1e400", text(r#"{"x":1e400}"#), OUT_OF_RANGE, None),
        ("B-07 1e131071", text(r#"{"x":1e131071}"#), OUT_OF_RANGE, None),
        ("B-07 2^64", text(r#"{"x":18446744073709551616}"#), OUT_OF_RANGE, None),
        ("B-07 NaN", text(r#"{"x":NaN}"#), MALFORMED, None),
        ("B-07 -Infinity", text(r#"{"x":-Infinity}"#), MALFORMED, None),
        ("B-08 U+0000", text(r#"{"x":["a\u0000b"]}"#), (422, "text-not-storable"), Some("/x/0")),
        ("B-09 lone surrogate", text(r#"{"x":"\ud800"}"#), MALFORMED, None),
        ("B-20 unknown field", text(r#"{"colour":1}"#), (422, "unknown-field"), Some("/colour")),
        (
            "B-21 tenant_id",
            text(r#"{"tenant_id":"x"}"#),
            (422, "unknown-field"),
            Some("/tenant_id"),
        ),
        ("B-21 status", text(r#"{"status":"x"}"#), (422, "unknown-field"), Some("/status")),
        ("B-21 seq", text(r#"{"seq":1}"#), (422, "unknown-field"), Some("/seq")),
        (
            "B-21 created_at",
            text(r#"{"created_at":"x"}"#),
            (422, "unknown-field"),
            Some("/created_at"),
        ),
        (
            "B-23 many keys",
            format!("{{{}}}", keys.join(",")).into_bytes(),
            (422, INVALID),
            Some(""),
        ),
    ]
}

#[tokio::test]
async fn a_body_that_is_not_json_as_it_must_be_is_refused_everywhere() {
    let app = TestApp::start().await;
    let there = there(&app).await;
    let rows = endpoints(&there).into_iter().flat_map(|(method, path)| {
        bodies().into_iter().map(move |(id, body, expect, pointer)| Row {
            body,
            pointer,
            ..Row::new(&id, (method, &path), expect).header(JSON)
        })
    });
    check(&app, rows).await;
    let required = endpoints(&there).into_iter().take(5);
    let empty = required
        .map(|(method, path)| Row::new("B-01 empty", (method, &path), MALFORMED).header(JSON));
    check(&app, empty).await;
    // A memory document may have more elements, and comes with a thread.
    let ordinary = endpoints(&there).into_iter().filter(|(_, path)| path != "/v1/threads");
    let long = ordinary.map(|(method, path)| {
        let body = format!("{{\"x\":[{}1]}}", "1,".repeat(99_999));
        Row::new("B-23 long array", (method, &path), (422, INVALID)).json(&body).at("/x")
    });
    check(&app, long).await;
}

#[tokio::test]
async fn only_plain_json_in_utf_8_is_taken_everywhere() {
    let app = TestApp::start().await;
    let there = there(&app).await;
    let media: [&[(&str, &[u8])]; 13] = [
        &[],
        &[("content-type", b"")],
        &[("content-type", b"text/plain")],
        &[("content-type", b"application/json; charset=latin1")],
        &[("content-type", b"application/jsonp")],
        &[("content-type", b"application/problem+json")],
        &[("content-type", b"multipart/form-data; boundary=x")],
        &[("content-type", b"application/x-www-form-urlencoded")],
        &[JSON, JSON],
        &[JSON, ("content-encoding", b"gzip")],
        &[JSON, ("content-encoding", b"gzip, gzip")],
        &[JSON, ("content-encoding", b"identity")],
        &[JSON, ("content-encoding", b"br")],
    ];
    let rows = endpoints(&there).into_iter().flat_map(|(method, path)| {
        media.into_iter().map(move |headers| {
            let id = format!("B-13, B-14 {headers:?}");
            let row = Row::new(&id, (method, &path), (415, "unsupported-media-type"));
            let row = headers.iter().fold(row, |row, header| row.header(*header));
            Row { body: b"{}".to_vec(), ..row }
        })
    });
    check(&app, rows).await;
}

/// A run of the agent `a` with other members.
fn run_with(change: impl FnOnce(&mut Value)) -> Value {
    let mut body = json!({ "agent_id": "a", "input": "hi" });
    change(&mut body);
    body
}

/// Bad runs by what is wrong with them.
fn runs(there: &There) -> Vec<BadBody<Value>> {
    let never = "agt_0198f2c4a1b27cde8f00112233445566";
    let pairs: serde_json::Map<String, Value> =
        (0..51).map(|n| (n.to_string(), json!("x"))).collect();
    let row = |id: &str, pointer: &'static str, value: Value| {
        let body = run_with(|body| body[pointer.trim_start_matches('/')] = value);
        (id.to_owned(), body, (422, INVALID), Some(pointer))
    };
    let mut rows = vec![
        ("B-32 no input".to_owned(), json!({ "agent_id": "a" }), (422, INVALID), Some("/input")),
        row("B-32 no text", "/input", json!("")),
        row("B-32 blank", "/input", json!(" \n\t")),
        row("B-32 no parts", "/input", json!([])),
        row("B-32 null", "/input", Value::Null),
        row("B-32 a number", "/input", json!(7)),
        row("B-32 an object", "/input", json!({ "text": "hi" })),
        row("B-32 blank parts", "/input", json!([{ "part_kind": "text", "text": " " }])),
        ("B-34 no agent".to_owned(), json!({ "input": "hi" }), (422, INVALID), Some("/agent_id")),
        (
            "B-34 two agents".to_owned(),
            run_with(|body| body["agent"] = speaker("b", "x")),
            (422, INVALID),
            Some("/agent_id"),
        ),
        row("B-34 version 0", "/agent_version", json!(0)),
        row("B-36 51 pairs", "/metadata", Value::Object(pairs)),
        row("B-36 a list", "/metadata", json!([])),
        row("thread of another kind", "/thread_id", json!("run_0198f2c4a1b27cde8f00112233445566")),
        row("id of another kind", "/id", json!("x")),
    ];
    for value in [json!(0), json!(-1), json!(1_000_000_000), json!("5"), json!(1.5), json!([])] {
        rows.push(row(&format!("B-35 max_steps {value}"), "/max_steps", value));
    }
    for value in
        [json!(0), json!(-1), json!("5"), json!(10_000_000_000_i64), json!(1e10), json!(0.5)]
    {
        rows.push(row(&format!("B-35 run_timeout_ms {value}"), "/run_timeout_ms", value));
    }
    for value in [json!("x".repeat(513)), json!({}), json!(1), Value::Null] {
        let id = format!("B-36 a label of {}", value.to_string().len());
        let body = run_with(|body| body["metadata"] = json!({ "k": value }));
        rows.push((id, body, (422, INVALID), Some("/metadata/k")));
    }
    for (id, version, expect) in [
        (never, None, (422, "unknown-agent")),
        ("never", None, (422, "unknown-agent")),
        ("A b", None, (422, "unknown-agent")),
        ("theirs", None, (422, "unknown-agent")),
        ("a", Some(2), (422, "unknown-agent")),
        (there.archived.as_str(), None, (410, "gone")),
        ("old", None, (422, "unknown-agent")),
    ] {
        let body = json!({ "agent_id": id, "agent_version": version, "input": "hi" });
        rows.push((format!("B-34 {id} {version:?}"), body, expect, None));
    }
    for member in ["deadline", "attachments", "messages", "tools"] {
        let body = run_with(|body| body[member] = json!([]));
        rows.push((format!("B-40 {member} is not known"), body, (422, "unknown-field"), None));
    }
    rows
}

#[tokio::test]
async fn a_bad_run_is_refused_at_its_place_and_nothing_is_stored() {
    let app = TestApp::start().await;
    let there = there(&app).await;
    let theirs = mint_key(&app, "other", &["agents:write"]).await;
    let body = speaker("theirs", "x").to_string();
    super::send_as(&app, &theirs, ("POST", "/v1/agents"), &body).await.expect(201);
    let key = mint_key(&app, "default", &["admin"]).await;
    let app = app.with_key(&key);
    let rows = ["/v1/runs", "/v1/runs/stream"].into_iter().flat_map(|path| {
        runs(&there).into_iter().map(move |(id, body, expect, pointer)| Row {
            pointer,
            ..Row::new(&id, ("POST", path), expect).json(&body)
        })
    });
    check(&app, rows).await;
}

#[tokio::test]
async fn a_run_cannot_be_put_where_it_does_not_belong() {
    let app = TestApp::start().await;
    let there = there(&app).await;
    let foreign = mint_key(&app, "other", &["admin"]).await;
    let thread = super::send_as(&app, &foreign, ("POST", "/v1/threads"), "{}").await.expect(201);
    let key = mint_key(&app, "default", &["admin"]).await;
    let app = app.with_key(&key);
    let on = |thread: &Value| run_with(|body| body["thread_id"] = thread.clone());
    let never = json!("thr_0198f2c4a1b27cde8f00112233445566");
    let taken = json!(there.run.rsplit('/').next().unwrap());
    let rows = ["/v1/runs", "/v1/runs/stream"].into_iter().flat_map(|path| {
        let row = |id, body: Value, expect| Row::new(id, ("POST", path), expect).json(&body);
        [
            row("thread of another tenant", on(&thread["id"]), (404, "not-found")),
            row("thread that never was", on(&never), (404, "not-found")),
            row(
                "id that is taken",
                run_with(|body| body["id"] = taken.clone()),
                (409, "id-conflict"),
            ),
        ]
    });
    check(&app, rows.collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn an_idempotency_key_is_one_visible_word() {
    let app = TestApp::start().await;
    there(&app).await;
    let long = "k".repeat(256);
    let keys: [&[&[u8]]; 7] = [
        &[b""],
        &[long.as_bytes()],
        &[b"a\tb"],
        &[b"a b"],
        &[b"\xc3\xa4"],
        &[b"a", b"a"],
        &[b"a", b"b"],
    ];
    let rows = ["/v1/runs", "/v1/runs/stream"].into_iter().flat_map(|path| {
        keys.into_iter().map(move |values| {
            let row = Row::new("B-38", ("POST", path), (400, "invalid-idempotency-key"));
            let row = values.iter().fold(row, |row, value| row.header(("idempotency-key", value)));
            row.json(&run_with(|_| ()))
        })
    });
    check(&app, rows).await;
    let longest = "k".repeat(255);
    let first = Row::new("B-39", ("POST", "/v1/runs"), (422, "idempotency-key-reused"))
        .header(("idempotency-key", longest.as_bytes()));
    let run = first.clone().json(&run_with(|_| ())).send(&app).await.expect(201);
    let waited = format!("/v1/runs/{}?wait=60", run["id"].as_str().unwrap());
    assert_eq!(app.get(&waited).await.expect(200)["status"], "completed");
    check(&app, [first.json(&run_with(|body| body["input"] = json!("other")))]).await;
}

#[tokio::test]
async fn a_preference_that_cannot_be_met_is_refused() {
    let app = TestApp::start().await;
    there(&app).await;
    let rows = ["wait=61", "wait=-1", "wait=x", "wait="].map(|value| {
        let row = Row::new(value, ("POST", "/v1/runs"), (400, "invalid-parameter"));
        row.header(("prefer", value.as_bytes())).json(&run_with(|_| ())).at("Prefer")
    });
    check(&app, rows).await;
}

#[tokio::test]
async fn a_page_that_cannot_be_is_refused() {
    let app = TestApp::start().await;
    let there = there(&app).await;
    app.run_body(&json!({ "agent_id": "a", "input": "hi" })).await;
    let lists = [
        "/v1/agents".to_owned(),
        "/v1/agents/a/versions".to_owned(),
        "/v1/threads".to_owned(),
        format!("{}/steps", there.thread),
        "/v1/runs".to_owned(),
        format!("{}/steps", there.run),
        format!("{}/events", there.run),
    ];
    let mut rows = Vec::new();
    for list in &lists {
        for limit in ["0", "201", "-1", "abc", "", "1.5", "99999999999", "1&limit=2"] {
            let path = format!("{list}?limit={limit}");
            rows.push(Row::new("B-47", ("GET", &path), (400, "invalid-parameter")).at("limit"));
        }
        for cursor in ["", "x", "%00", &"A".repeat(64)] {
            let path = format!("{list}?cursor={cursor}");
            rows.push(Row::new("B-47", ("GET", &path), (400, "invalid-cursor")));
        }
        let page = app.get(&format!("{list}?limit=1")).await.expect(200);
        let Some(cursor) = page["next_cursor"].as_str() else { continue };
        let others = lists.iter().filter(|other| *other != list);
        rows.extend(others.map(|other| {
            let path = format!("{other}?cursor={cursor}");
            Row::new("B-47 of another list", ("GET", &path), (400, "invalid-cursor"))
        }));
        if list == "/v1/runs" {
            let path = format!("{list}?status=completed&cursor={cursor}");
            rows.push(Row::new("B-47 of another filter", ("GET", &path), (400, "invalid-cursor")));
        }
    }
    assert!(rows.iter().any(|row| row.id == "B-47 of another filter"));
    check(&app, rows).await;
}

#[tokio::test]
async fn a_filter_that_cannot_be_is_refused() {
    let app = TestApp::start().await;
    let there = there(&app).await;
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let mut rows: Vec<Row> = [
        ("status=foo", "status"),
        ("status=", "status"),
        ("status=completed&status=failed", "status"),
        ("agent_id=a", "agent_id"),
        ("agent_id=run_0198f2c4a1b27cde8f00112233445566", "agent_id"),
        ("thread_id=x", "thread_id"),
        ("created_after=yesterday", "created_after"),
        ("created_after=2026-01-01", "created_after"),
        ("created_before=1700000000", "created_before"),
        ("created_before=2026-13-01T00:00:00Z", "created_before"),
        ("colour=red", "colour"),
    ]
    .into_iter()
    .map(|(query, name)| {
        let path = format!("/v1/runs?{query}");
        Row::new("B-48", ("GET", &path), (400, "invalid-parameter")).at(name)
    })
    .collect();
    rows.extend(["/v1/agents", "/v1/threads", "/v1/runs"].map(|list| {
        let path = format!("{list}?created_after={late}&created_before={early}");
        let row = Row::new("B-48 reversed", ("GET", &path), (400, "invalid-parameter"));
        row.at("created_before")
    }));
    for wait in ["-1", "61", "x", "1&wait=2"] {
        let path = format!("{}?wait={wait}", there.run);
        rows.push(Row::new("B-48 wait", ("GET", &path), (400, "invalid-parameter")).at("wait"));
    }
    check(&app, rows).await;
    let forwards = format!("/v1/runs?created_after={early}&created_before={late}");
    assert_eq!(app.get(&forwards).await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn a_run_that_has_ended_cannot_be_steered() {
    let app = TestApp::start().await;
    let there = there(&app).await;
    let rows = [
        ("cancel", "run-already-terminal"),
        ("interrupt", "run-not-active"),
        ("resume", "run-not-waiting"),
    ]
    .map(|(verb, slug)| Row::new("B-51", ("POST", &format!("{}/{verb}", there.run)), (409, slug)));
    for row in &rows {
        assert_eq!(row.send(&app).await.json()["run_status"], "completed", "{row:?}");
    }
    check(&app, rows).await;
}

#[tokio::test]
async fn a_stream_is_asked_for_as_streams_are() {
    let app = TestApp::start().await;
    let stream = format!("{}/stream", there(&app).await.run);
    let get = |id, expect| Row::new(id, ("GET", &stream), expect);
    let mut rows = vec![
        get("B-58", (406, "not-acceptable")).header(("accept", b"application/json")),
        Row::new("B-58", ("POST", "/v1/runs/stream"), (406, "not-acceptable"))
            .header(("accept", b"application/json"))
            .json(&run_with(|_| ())),
        Row::new("B-61 POST", ("POST", &stream), (405, "method-not-allowed")),
        Row::new("B-61 GET", ("GET", "/v1/runs/stream"), (405, "method-not-allowed")),
        get("ahead", (409, "stream-cursor-ahead")).header(("last-event-id", b"1000")),
        get("two", (400, "invalid-last-event-id"))
            .header(("last-event-id", b"1"))
            .header(("last-event-id", b"1")),
    ];
    for value in [&b"x"[..], b"", b"-1", b"1.5", b"+1", b"99999999999999999999", b"\xc3\xa4"] {
        rows.push(
            get("Last-Event-ID", (400, "invalid-last-event-id")).header(("last-event-id", value)),
        );
    }
    check(&app, rows).await;
    assert_eq!(app.send(app.request("HEAD", &stream)).await.status, 405);
    let ranged = app.send(app.request("GET", &stream).header("range", "bytes=0-1")).await;
    assert_eq!((ranged.status, ranged.header("content-range")), (200, ""));
}

#[tokio::test]
async fn a_schema_that_cannot_be_checked_is_refused() {
    let app = TestApp::start().await;
    let refer = |to: &str| json!({ "type": "object", "properties": { "a": { "$ref": to } } });
    let many: Vec<Value> = (0..5_000).map(|_| json!({ "type": "object" })).collect();
    let member = |schema: Value| json!({ "type": "object", "properties": { "a": schema } });
    let rows = [
        ("B-45 no schema", json!({ "type": "nothing" }), "invalid-tool-schema"),
        ("B-45 remote", refer("https://example.com/a"), "remote-ref-forbidden"),
        ("B-45 file", refer("file:///etc/passwd"), "remote-ref-forbidden"),
        ("B-45 wide", json!({ "type": "object", "allOf": many }), "schema-too-complex"),
        (
            "B-45 look-behind",
            member(json!({ "type": "string", "pattern": "(?<=a)b" })),
            "invalid-tool-schema",
        ),
        (
            "B-45 no pattern",
            member(json!({ "type": "string", "pattern": "(" })),
            "invalid-tool-schema",
        ),
        ("B-45 dangling", refer("#/$defs/nothing"), "invalid-tool-schema"),
    ]
    .map(|(id, schema, slug)| {
        let mut agent = speaker("s", "x");
        agent["output_schema"] = schema;
        Row::new(id, ("POST", "/v1/agents"), (422, slug)).json(&agent)
    });
    check(&app, rows).await;
    for (name, schema) in [
        ("recursive", json!({ "type": "object", "properties": { "a": { "$ref": "#" } } })),
        ("linear", member(json!({ "type": "string", "pattern": "(a+)+$" }))),
    ] {
        let mut agent = speaker(name, "x");
        agent["output_schema"] = schema;
        app.create_agent(&agent).await;
    }
}

/// JSON of exactly so many bytes.
fn padded(body: &str, bytes: usize) -> String {
    format!("{body}{}", " ".repeat(bytes - body.len()))
}

#[tokio::test]
async fn a_body_may_be_as_large_as_the_limit_and_no_byte_larger() {
    let limits = [("AGENTLING_BODY_LIMIT_BYTES", "2048"), ("AGENTLING_MEMORY_LIMIT_BYTES", "4096")];
    let app = TestApp::with(&limits).await;
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    let memory = format!("/v1/threads/{}/memory", thread["id"].as_str().unwrap());
    let document = r#"{"version":2,"thread":{},"steps":[]}"#;
    for (method, path, body, limit, status) in [
        ("POST", "/v1/agents", speaker("a", "x").to_string(), 2048, 201),
        ("POST", "/v1/threads", "{}".to_owned(), 4096, 201),
        ("PUT", memory.as_str(), document.to_owned(), 4096, 200),
        ("POST", "/v1/runs", json!({ "agent_id": "a", "input": "hi" }).to_string(), 2048, 201),
    ] {
        let start = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        );
        let before = stored(&app.db).await;
        // The length alone gives it away: no byte of the body is waited for.
        let announced = format!("{start}Content-Length: {}\r\n\r\n", limit + 1);
        // Nor is its end waited for when it comes in chunks.
        let (head, body) =
            (format!("{start}Transfer-Encoding: chunked\r\n\r\n"), padded(&body, limit));
        let chunked = format!("{head}{limit:x}\r\n{body}\r\n1\r\n \r\n");
        for request in [announced, chunked] {
            let answer = send_raw(&app, request.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 413 "), "{method} {path}: {answer}");
            assert!(answer.contains("content-type: application/problem+json\r\n"), "{answer}");
            assert!(answer.contains("connection: close\r\n"), "{answer}");
            assert!(answer.contains(&format!("\"limit\":{limit}")), "{answer}");
        }
        assert_eq!(stored(&app.db).await, before);
        let last = format!(
            "{start}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n{limit:x}\r\n{body}\r\n0\r\n\r\n"
        );
        let whole = format!("{start}Connection: close\r\nContent-Length: {limit}\r\n\r\n{body}");
        let request = if path == "/v1/agents" { whole } else { last };
        let answer = send_raw(&app, request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{method} {path}: {answer}");
    }
}

/// The JSON types that a schema takes.
fn types(document: &Value, schema: &Value) -> BTreeSet<String> {
    if let Some(target) = schema["$ref"].as_str() {
        return types(document, document.pointer(target.trim_start_matches('#')).unwrap());
    }
    let variants = schema["oneOf"].as_array().into_iter().flatten();
    let mut found: BTreeSet<String> =
        variants.flat_map(|variant| types(document, variant)).collect();
    let named = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    found.extend(named.iter().filter_map(Value::as_str).map(str::to_owned));
    if found.contains("number") {
        found.insert("integer".to_owned());
    }
    found
}

/// The fields of an object and of the objects in it, with their pointers and schemas.
fn fields(document: &Value, schema: &Value, at: &str) -> Vec<(String, Value)> {
    if let Some(target) = schema["$ref"].as_str() {
        return fields(document, document.pointer(target.trim_start_matches('#')).unwrap(), at);
    }
    let variants = schema["oneOf"].as_array().filter(|variants| variants.len() == 2);
    if let Some(present) =
        variants.and_then(|variants| variants.iter().find(|v| !v["$ref"].is_null()))
    {
        return fields(document, present, at);
    }
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties
        .flat_map(|(name, schema)| {
            let pointer = format!("{at}/{name}");
            let inner = fields(document, schema, &pointer);
            std::iter::once((pointer, schema.clone())).chain(inner)
        })
        .collect()
}

/// A body with another value at a pointer.
fn swapped(body: &Value, pointer: &str, value: &Value) -> Value {
    let mut body = body.clone();
    let place = pointer.split('/').skip(1).fold(&mut body, |place, name| &mut place[name]);
    *place = value.clone();
    body
}

const VALUES: [(&str, &str); 5] =
    [("boolean", "true"), ("integer", "7"), ("string", "\"x\""), ("array", "[]"), ("object", "{}")];

/// The fields of a component, each with every value that is of none of its types.
fn wrong_types(document: &Value, component: &str) -> Vec<(String, Value)> {
    let fields = fields(document, &document["components"]["schemas"][component], "");
    let typed = fields.into_iter().map(|(pointer, schema)| (pointer, types(document, &schema)));
    typed
        .filter(|(_, types)| !types.is_empty())
        .flat_map(|(pointer, types)| {
            let others = VALUES.into_iter().filter(move |(kind, _)| !types.contains(*kind));
            others.map(move |(_, text)| (pointer.clone(), serde_json::from_str(text).unwrap()))
        })
        .collect()
}

#[tokio::test]
async fn a_value_of_another_type_is_refused_at_its_place_wherever_it_stands() {
    let app = TestApp::start().await;
    let document = openapi_document();
    let run = json!({ "agent": speaker("s", "x"), "input": "hi" });
    let mut n = 0;
    let before = stored(&app.db).await;
    for (path, component, body) in [
        ("/v1/agents", "AgentSpec", &speaker("s", "x")),
        ("/v1/threads", "NewThread", &json!({})),
        ("/v1/runs", "NewRun", &run),
    ] {
        for (pointer, value) in wrong_types(&document, component) {
            n += 1;
            let answer = app.post(path, &swapped(body, &pointer, &value)).await;
            let problem = answer.expect_problem(422, INVALID);
            assert!(pointers(&problem).contains(&pointer.as_str()), "{pointer}: {problem}");
        }
    }
    assert!(n > 200, "{n}");
    assert_eq!(stored(&app.db).await, before);
}
