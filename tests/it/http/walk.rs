//! Every operation of the OpenAPI document, refused in every way in which all of them must refuse.
//!
//! A new operation needs one line in [`OPERATIONS`]. What an operation answers otherwise than the
//! rest stands in [`EXCEPTIONS`] with its reason; an entry that is no longer true fails.

use std::collections::BTreeSet;

use agentling::http::openapi::PROBLEMS;
use agentling::http::openapi_document;
use serde_json::{Value, json};

use super::secrets::SEALING;
use super::{pointers, speaker, without_ids};
use crate::support::{Answer, TestApp, mint_key, stored};

/// The bootstrap key of the server that is walked.
pub(super) const BOOTSTRAP: &str = "the-key-of-the-walk";
pub(super) const SCOPES: [&str; 11] = [
    "agents:read",
    "agents:write",
    "runs:read",
    "runs:write",
    "memory:read",
    "memory:write",
    "memory:system",
    "ledger:read",
    "secrets:write",
    "tools:write",
    "admin",
];

/// A name as long as an id.
pub(super) const SECRET_NAME: &str = "key-00000000000000000000000000000000";

/// What an operation takes as its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    /// JSON that would be accepted.
    Json(&'static str),
    /// The same, and no body at all.
    Maybe(&'static str),
}

const AGENT: &str = r#"{"name":"b","model":{"provider":"scripted","name":"m"}}"#;
const BUDGET: &str = r#"{"tokens":1000000}"#;
const ITEM: &str = r#"{"value":1}"#;
const ITEM_VERSION: &str = r#"{"namespace":["a"],"key":"k","version":1}"#;
/// What names an item, where an operation is on one.
const ITEM_QUERY: &str = "?namespace=a&key=k";
const MCP_SERVER: &str = r#"{"name":"s","url":"https://example.com/mcp"}"#;
const KEY: &str = r#"{"scopes":["runs:read"]}"#;
const MEMORY: &str = r#"{"version":2,"thread":{},"steps":[]}"#;
const STEP: &str = r#"{"kind":"system","text":"Hurry."}"#;
const COMPACTION: &str = r#"{"strategy":"summarize","summary":"They met."}"#;
const CONTEXT: &str = r#"{"text":"Ann"}"#;
const FORK: &str = r#"{"at_seq":1}"#;
const MESSAGE: &str = r#"{"text":"Hurry."}"#;
const RENDER: &str = r#"{"agent":{"name":"b","model":{"provider":"scripted","name":"m"}}}"#;
const SCHEDULE: &str = r#"{"cron":"0 0 1 1 *","agent_id":"a","input":"hi"}"#;
/// It is refused, so that a walk over names, each of which a secret could have, stores none.
const SECRET: &str = r#"{"value":"hunter22","origins":["ftp://example.com"]}"#;
const TOOL: &str = r#"{"tool":{"kind":"http","name":"t","url":"https://nowhere.invalid/","parameters":{"type":"object"}}}"#;
const SKILL: &str = r#"{"name":"b","description":"d","instructions":"i"}"#;
const WEBHOOK: &str = r#"{"url":"https://example.com/hook"}"#;
const RUN: &str = r#"{"agent_id":"a","input":"hi"}"#;

const DECISIONS: &str = r#"{"decisions":[{"tool_call_id":"call_1","approve":true}]}"#;
const RESULTS: &str = r#"{"results":[{"tool_call_id":"call_1","output":1}]}"#;
const RESOLUTION: &str = r#"{"outcome":"retry"}"#;

/// Every operation: its id, the scope it needs, and what it takes.
const OPERATIONS: &[(&str, &str, Takes)] = &[
    ("agents_archive", "agents:write", Takes::Nothing),
    ("agents_create", "agents:write", Takes::Json(AGENT)),
    ("agents_get", "agents:read", Takes::Nothing),
    ("agents_list", "agents:read", Takes::Nothing),
    ("agents_put", "agents:write", Takes::Json(AGENT)),
    ("agents_versions", "agents:read", Takes::Nothing),
    ("budgets_get", "runs:read", Takes::Nothing),
    ("budgets_remove", "admin", Takes::Nothing),
    ("budgets_set", "admin", Takes::Json(BUDGET)),
    ("health_live", "", Takes::Nothing),
    ("health_metrics", "", Takes::Nothing),
    ("health_ready", "", Takes::Nothing),
    ("keys_create", "admin", Takes::Json(KEY)),
    ("keys_get", "admin", Takes::Nothing),
    ("keys_list", "admin", Takes::Nothing),
    ("keys_revoke", "admin", Takes::Nothing),
    ("keys_rotate", "admin", Takes::Maybe("{}")),
    ("mcp_servers_create", "tools:write", Takes::Json(MCP_SERVER)),
    ("mcp_servers_delete", "tools:write", Takes::Nothing),
    ("mcp_servers_get", "agents:read", Takes::Nothing),
    ("mcp_servers_list", "agents:read", Takes::Nothing),
    ("mcp_servers_put", "tools:write", Takes::Json(MCP_SERVER)),
    ("mcp_servers_test", "tools:write", Takes::Maybe("{}")),
    ("memory_export", "memory:read", Takes::Nothing),
    ("memory_items_delete", "memory:write", Takes::Nothing),
    ("memory_items_get", "memory:read", Takes::Nothing),
    ("memory_items_put", "memory:write", Takes::Json(ITEM)),
    ("memory_items_redact", "memory:write", Takes::Json(ITEM_VERSION)),
    ("memory_items_versions", "memory:read", Takes::Nothing),
    ("memory_load", "memory:write", Takes::Json(MEMORY)),
    ("memory_namespaces", "memory:read", Takes::Nothing),
    ("memory_reset", "memory:write", Takes::Nothing),
    ("memory_search", "memory:read", Takes::Json("{}")),
    ("memory_validate", "memory:write", Takes::Json(MEMORY)),
    ("prompts_render", "memory:read", Takes::Json(RENDER)),
    ("redaction_selftest", "admin", Takes::Nothing),
    ("requests_body", "ledger:read", Takes::Nothing),
    ("requests_get", "runs:read", Takes::Nothing),
    ("requests_response", "ledger:read", Takes::Nothing),
    ("requests_spans", "runs:read", Takes::Nothing),
    ("runs_cancel", "runs:write", Takes::Maybe("{}")),
    ("runs_create", "runs:write", Takes::Json(RUN)),
    ("runs_create_stream", "runs:write", Takes::Json(RUN)),
    ("runs_decide", "runs:write", Takes::Json(DECISIONS)),
    ("runs_delete", "runs:write", Takes::Nothing),
    ("runs_diff", "runs:read", Takes::Nothing),
    ("runs_events", "runs:read", Takes::Nothing),
    ("runs_get", "runs:read", Takes::Nothing),
    ("runs_interrupt", "runs:write", Takes::Maybe("{}")),
    ("runs_list", "runs:read", Takes::Nothing),
    ("runs_post_tool_results", "runs:write", Takes::Json(RESULTS)),
    ("runs_replay", "runs:read", Takes::Maybe("{}")),
    ("runs_requests", "runs:read", Takes::Nothing),
    ("runs_resolve", "runs:write", Takes::Json(RESOLUTION)),
    ("runs_resume", "runs:write", Takes::Maybe("{}")),
    ("runs_say", "runs:write", Takes::Json(MESSAGE)),
    ("runs_steps", "runs:read", Takes::Nothing),
    ("runs_stream", "runs:read", Takes::Nothing),
    ("schedules_create", "runs:write", Takes::Json(SCHEDULE)),
    ("schedules_delete", "runs:write", Takes::Nothing),
    ("schedules_get", "runs:read", Takes::Nothing),
    ("schedules_list", "runs:read", Takes::Nothing),
    ("schedules_put", "runs:write", Takes::Json(SCHEDULE)),
    ("secrets_delete", "secrets:write", Takes::Nothing),
    ("secrets_get", "agents:read", Takes::Nothing),
    ("secrets_list", "agents:read", Takes::Nothing),
    ("secrets_put", "secrets:write", Takes::Json(SECRET)),
    ("skills_archive", "tools:write", Takes::Nothing),
    ("skills_create", "tools:write", Takes::Json(SKILL)),
    ("skills_get", "agents:read", Takes::Nothing),
    ("skills_list", "agents:read", Takes::Nothing),
    ("skills_put", "tools:write", Takes::Json(SKILL)),
    ("skills_version", "agents:read", Takes::Nothing),
    ("skills_versions", "agents:read", Takes::Nothing),
    ("steps_get", "runs:read", Takes::Nothing),
    ("steps_request_body", "ledger:read", Takes::Nothing),
    ("steps_request_response", "ledger:read", Takes::Nothing),
    ("steps_request_spans", "runs:read", Takes::Nothing),
    ("steps_requests", "runs:read", Takes::Nothing),
    ("threads_append", "memory:system", Takes::Json(STEP)),
    ("threads_compact", "memory:write", Takes::Json(COMPACTION)),
    ("threads_create", "memory:write", Takes::Json("{}")),
    ("threads_delete", "memory:write", Takes::Nothing),
    ("threads_diagnosis", "memory:read", Takes::Nothing),
    ("threads_fork", "memory:write", Takes::Json(FORK)),
    ("threads_get", "memory:read", Takes::Nothing),
    ("threads_list", "memory:read", Takes::Nothing),
    ("threads_set_context", "memory:system", Takes::Json(CONTEXT)),
    ("threads_steps", "memory:read", Takes::Nothing),
    ("tools_test", "tools:write", Takes::Json(TOOL)),
    ("usage_get", "runs:read", Takes::Nothing),
    ("webhooks_create", "admin", Takes::Json(WEBHOOK)),
    ("webhooks_delete", "admin", Takes::Nothing),
    ("webhooks_deliveries", "runs:read", Takes::Nothing),
    ("webhooks_get", "runs:read", Takes::Nothing),
    ("webhooks_list", "runs:read", Takes::Nothing),
    ("webhooks_put", "admin", Takes::Json(WEBHOOK)),
    ("webhooks_redeliver", "admin", Takes::Maybe("{}")),
    ("webhooks_rotate", "admin", Takes::Maybe("{}")),
];

/// A way in which a request is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    NoKey,
    WrongKey,
    NoScope,
    Unacceptable,
    UnknownParameter,
    ForeignId,
    NoId,
    BrokenBody,
    UnknownField,
    NotAnObject,
    WrongMedia,
}

use Fault::{
    BrokenBody, ForeignId, NoId, NoKey, NoScope, NotAnObject, Unacceptable, UnknownField,
    UnknownParameter, WrongKey, WrongMedia,
};

const FAULTS: [Fault; 11] = [
    NoKey,
    WrongKey,
    NoScope,
    Unacceptable,
    UnknownParameter,
    ForeignId,
    NoId,
    BrokenBody,
    UnknownField,
    NotAnObject,
    WrongMedia,
];

const OPEN: &str = "whoever supervises the server has no key and asks as it likes";
const NAMES: &str = "every name is one that a secret of the caller may have";
const READER: &str = "a memory document has a reader of its own, which lists what is wrong with it";

/// What is answered otherwise, and why. The list may only get shorter.
const EXCEPTIONS: &[(&str, Fault, &str)] = &[
    ("health_live", NoKey, OPEN),
    ("health_live", WrongKey, OPEN),
    ("health_live", NoScope, OPEN),
    ("health_live", Unacceptable, OPEN),
    ("health_live", UnknownParameter, OPEN),
    ("health_metrics", NoKey, OPEN),
    ("health_metrics", WrongKey, OPEN),
    ("health_metrics", NoScope, OPEN),
    ("health_metrics", Unacceptable, OPEN),
    ("health_metrics", UnknownParameter, OPEN),
    ("health_ready", NoKey, OPEN),
    ("health_ready", WrongKey, OPEN),
    ("health_ready", NoScope, OPEN),
    ("health_ready", Unacceptable, OPEN),
    ("health_ready", UnknownParameter, OPEN),
    ("memory_load", BrokenBody, READER),
    ("memory_load", UnknownField, READER),
    ("memory_load", NotAnObject, READER),
    ("memory_validate", BrokenBody, READER),
    ("memory_validate", UnknownField, READER),
    ("memory_validate", NotAnObject, READER),
    ("secrets_put", ForeignId, NAMES),
    ("secrets_put", NoId, NAMES),
];

/// An operation as the document has it, with its line of the table.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) id: String,
    pub(super) method: String,
    pub(super) path: String,
    problems: BTreeSet<String>,
    pub(super) scope: &'static str,
    pub(super) takes: Takes,
}

/// The operations of the document, all of which the table must know.
pub(super) fn operations() -> Vec<Operation> {
    let document = openapi_document();
    let paths = document["paths"].as_object().unwrap();
    let items = paths.iter().flat_map(|(path, item)| {
        item.as_object().unwrap().iter().map(move |(method, operation)| (path, method, operation))
    });
    items.map(|(path, method, operation)| operation_of(path, method, operation)).collect()
}

fn operation_of(path: &str, method: &str, operation: &Value) -> Operation {
    let id = operation["operationId"].as_str().unwrap();
    let line = OPERATIONS.iter().find(|(known, ..)| *known == id);
    let &(_, scope, takes) = line.unwrap_or_else(|| panic!("{id} needs a line in OPERATIONS"));
    let problems = operation[PROBLEMS].as_array().unwrap().iter();
    Operation {
        id: id.to_owned(),
        method: method.to_uppercase(),
        path: path.to_owned(),
        problems: problems.map(|slug| slug.as_str().unwrap().to_owned()).collect(),
        scope,
        takes,
    }
}

/// A server with a finished run of the default tenant, and keys.
pub(super) struct World {
    pub(super) app: TestApp,
    /// The key of another tenant, which may do everything.
    foreign: String,
    /// Keys of the default tenant that have all scopes but one, by the one that they lack.
    lacking: Vec<(&'static str, String)>,
    agent: Value,
    run: Value,
    step: Value,
    request: Value,
    webhook: Value,
    delivery: Value,
    schedule: Value,
    skill: Value,
    server: Value,
    api_key: Value,
}

async fn skill_and_server(app: &TestApp) -> (Value, Value) {
    let skill = json!({"name": "s", "description": "d", "instructions": "i"});
    let server = json!({"name": "walked", "url": app.tools.url("mcp")});
    let skill = app.post("/v1/skills", &skill).await.expect(201);
    (skill, app.post("/v1/mcp-servers", &server).await.expect(201))
}

/// Keys that have all scopes but one, by the one that they lack.
async fn lacking(app: &TestApp) -> Vec<(&'static str, String)> {
    let mut lacking = Vec::new();
    for lacked in SCOPES {
        let held: Vec<&str> =
            SCOPES.into_iter().filter(|scope| ![lacked, "admin"].contains(scope)).collect();
        lacking.push((lacked, mint_key(app, "default", &held).await));
    }
    lacking
}

impl World {
    async fn new() -> Self {
        let app = TestApp::with(&[("AGENTLING_API_KEY", BOOTSTRAP), SEALING]).await;
        Self::of(app.with_key(BOOTSTRAP)).await
    }

    /// The same for the tenant whose key a server is asked with.
    pub(super) async fn of(app: TestApp) -> Self {
        let agent = app.create_agent(&speaker("a", "Hello.")).await;
        let hook = json!({ "url": app.tools.url("hook") });
        let webhook = app.post("/v1/webhooks", &hook).await.expect(201);
        let secret = json!({ "value": "hunter22", "origins": [app.tools.origin()] });
        app.put(&format!("/v1/secrets/{SECRET_NAME}"), &secret).await.expect(200);
        let schedule: Value = serde_json::from_str(SCHEDULE).unwrap();
        let schedule = app.post("/v1/schedules", &schedule).await.expect(201);
        let (skill, server) = skill_and_server(&app).await;
        let run = app.run_body(&json!({ "agent_id": "a", "input": "hi" })).await;
        let path = format!("/v1/webhooks/{}/deliveries", webhook["id"].as_str().unwrap());
        let delivery = app.all(&path).await[0].clone();
        let budget = format!("/v1/budgets/agent/{}", agent["id"].as_str().unwrap());
        app.put(&budget, &json!({"tokens": 1_000_000})).await.expect(200);
        let path = format!("/v1/runs/{}/steps", run["id"].as_str().unwrap());
        let step = app.all(&path).await[1].clone();
        let path = format!("/v1/runs/{}/requests", run["id"].as_str().unwrap());
        let request = app.all(&path).await[0].clone();
        let api_key = json!({ "scopes": ["runs:read"] });
        let api_key = app.post("/v1/keys", &api_key).await.expect(201);
        let foreign = mint_key(&app, "other", &["admin"]).await;
        let lacking = lacking(&app).await;
        Self {
            app,
            foreign,
            lacking,
            agent,
            run,
            step,
            request,
            webhook,
            delivery,
            schedule,
            skill,
            server,
            api_key,
        }
    }

    /// The operation's path with what is really there.
    pub(super) fn real_path(&self, operation: &Operation) -> String {
        let is_on_item =
            operation.path.starts_with("/v1/memory/items") && operation.method != "POST";
        let query = if is_on_item { ITEM_QUERY } else { "" };
        format!("{}{query}", self.real(&operation.path))
    }

    /// A path, or a parameter of one, with what is really there.
    pub(super) fn real(&self, path: &str) -> String {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        path.replace("{scope}", "agent")
            .replace("{owner_id}", &text(&self.agent["id"]))
            .replace("{agent_id}", &text(&self.agent["id"]))
            .replace("{thread_id}", &text(&self.run["thread_id"]))
            .replace("{run_id}", &text(&self.run["id"]))
            .replace("{other_run_id}", &text(&self.run["id"]))
            .replace("{step_id}", &text(&self.step["id"]))
            .replace("{request_id}", &text(&self.request["id"]))
            .replace("{webhook_id}", &text(&self.webhook["id"]))
            .replace("{delivery_id}", &text(&self.delivery["id"]))
            .replace("{schedule_id}", &text(&self.schedule["id"]))
            .replace("{name}", SECRET_NAME)
            .replace("{skill_id}", &text(&self.skill["id"]))
            .replace("{server_id}", &text(&self.server["id"]))
            .replace("{key_id}", &text(&self.api_key["id"]))
            .replace("{version}", "1")
            .replace("{call_id}", "call_1")
            .replace("{n}", "1")
            .replace("{block_id}", "user")
    }

    async fn ask(&self, operation: &Operation, path: &str, with: With<'_>) -> Answer {
        let request =
            self.app.client().request(operation.method.parse().unwrap(), self.app.url(path));
        let request = with
            .headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value));
        let request = match with.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        };
        self.app.send(request.body(with.body.to_owned())).await
    }

    /// Everything that is wrong with how an operation answers to a fault.
    async fn findings(&self, operation: &Operation, fault: Fault) -> Vec<String> {
        let mut found = Vec::new();
        for (path, with) in self.requests(operation, fault) {
            let answer = self.ask(operation, &path, with).await;
            found.extend(differences(operation, fault, &answer));
        }
        found
    }

    /// The requests that have a fault; none when the operation cannot have it.
    fn requests<'a>(&'a self, operation: &Operation, fault: Fault) -> Vec<(String, With<'a>)> {
        let key = self.app.key();
        let real = self.real_path(operation);
        let (body, json) = match operation.takes {
            Takes::Nothing => ("", false),
            Takes::Json(body) | Takes::Maybe(body) => (body, true),
        };
        let media: &[(&str, &str)] =
            if json { &[("content-type", "application/json")] } else { &[] };
        let good = With { key, headers: media, body };
        match fault {
            NoKey => vec![(real, With { key: None, ..good })],
            WrongKey => vec![(real, With { key: Some(UNKNOWN_KEY), ..good })],
            NoScope => {
                let lacking = self.lacking.iter().find(|(lacked, _)| *lacked == operation.scope);
                let key = lacking.map(|(_, key)| key.as_str()).or(key);
                vec![(real, With { key, ..good })]
            }
            Unacceptable => {
                vec![(real, With { headers: &[("accept", "image/png")], ..good })]
            }
            UnknownParameter => {
                let sign = if real.contains('?') { '&' } else { '?' };
                vec![(format!("{real}{sign}colour=1"), good)]
            }
            ForeignId => {
                let with = With { key: Some(self.foreign.as_str()), ..good };
                self.other_ids(operation, &[real]).into_iter().map(|path| (path, with)).collect()
            }
            NoId => {
                let paths =
                    ["x", "run_", "key_0198f2c4a1b27cde8f00112233445566", "%00", "%ff", "a%2Fb"]
                        .map(|id| template(&operation.path, id));
                self.other_ids(operation, &paths).into_iter().map(|path| (path, good)).collect()
            }
            BrokenBody | UnknownField | NotAnObject | WrongMedia if !json => Vec::new(),
            BrokenBody => vec![(real, With { body: "{", ..good })],
            UnknownField => vec![(real, With { body: r#"{"colour":1}"#, ..good })],
            NotAnObject => vec![(real, With { body: "[]", ..good })],
            WrongMedia => [&[("content-type", "text/plain")][..], &[]]
                .into_iter()
                .map(|headers| (real.clone(), With { headers, ..good }))
                .collect(),
        }
    }

    /// These paths and one whose id never was; none when the operation has no id.
    fn other_ids(&self, operation: &Operation, paths: &[String]) -> Vec<String> {
        if !operation.path.contains('{') {
            return Vec::new();
        }
        let never = self.real_path(operation);
        let never: String = never.split('/').map(one_off).collect::<Vec<_>>().join("/");
        paths.iter().cloned().chain([never]).collect()
    }
}

/// A segment with another last digit when it is an id.
fn one_off(segment: &str) -> String {
    let other = if segment.ends_with('0') { "1" } else { "0" };
    match segment.split_at_checked(35) {
        Some((start, last)) if last.len() == 1 => format!("{start}{other}"),
        _ => segment.to_owned(),
    }
}

/// A path with a text in place of its id.
fn template(path: &str, id: &str) -> String {
    let segments =
        path.split('/').map(|segment| if segment.starts_with('{') { id } else { segment });
    segments.collect::<Vec<_>>().join("/")
}

/// A key that was never made.
const UNKNOWN_KEY: &str =
    "ag_0198f2c4a1b27cde8f00112233445566_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// What a request is sent with.
#[derive(Debug, Clone, Copy)]
struct With<'a> {
    key: Option<&'a str>,
    headers: &'a [(&'a str, &'a str)],
    body: &'a str,
}

/// Status and slug that a fault gets.
const fn expected(fault: Fault) -> (u16, &'static str) {
    match fault {
        NoKey | WrongKey => (401, "unauthenticated"),
        NoScope => (403, "insufficient-scope"),
        Unacceptable => (406, "not-acceptable"),
        UnknownParameter => (400, "invalid-parameter"),
        ForeignId | NoId => (404, "not-found"),
        BrokenBody => (400, "malformed-json"),
        UnknownField => (422, "unknown-field"),
        NotAnObject => (422, "validation-failed"),
        WrongMedia => (415, "unsupported-media-type"),
    }
}

fn differences(operation: &Operation, fault: Fault, answer: &Answer) -> Option<String> {
    let (status, slug) = expected(fault);
    let problem = answer.json();
    let members = match fault {
        NoScope => problem["required"] == operation.scope,
        ForeignId | NoId => without_ids(answer.json()) == not_there(),
        UnknownParameter => pointers(&problem) == ["colour"],
        UnknownField => pointers(&problem).contains(&"/colour"),
        NotAnObject => pointers(&problem) == [""],
        NoKey | WrongKey => answer.header("www-authenticate") == "Bearer realm=\"agentling\"",
        Unacceptable | BrokenBody | WrongMedia => true,
    };
    let is_right = (answer.status, answer.slug().as_str()) == (status, slug)
        && answer.header("content-type") == "application/problem+json"
        && operation.problems.contains(slug)
        && members;
    let Operation { id, .. } = operation;
    (!is_right).then(|| format!("{id} {fault:?}: not {status} {slug}, documented: {answer:?}"))
}

/// The one answer for what is not there, whatever it is.
pub(super) fn not_there() -> Value {
    json!({ "type": "/problems/not-found", "title": "Not found", "status": 404,
            "detail": "nothing is found under this id" })
}

#[tokio::test]
async fn every_operation_refuses_what_all_of_them_must_refuse() {
    let world = World::new().await;
    // What an endpoint is told goes on by itself.
    let stored = async || {
        let mut stored = stored(&world.app.db).await;
        stored.remove("webhook_delivery");
        stored
    };
    let before = stored().await;
    let listed: BTreeSet<(&str, Fault)> =
        EXCEPTIONS.iter().map(|(id, fault, _)| (*id, *fault)).collect();
    let (mut wrong, mut excepted) = (Vec::new(), BTreeSet::new());
    let operations = operations();
    let asked = operations.iter().flat_map(|operation| FAULTS.map(|fault| (operation, fault)));
    for (operation, fault) in asked {
        let found = world.findings(operation, fault).await;
        match listed.get(&(operation.id.as_str(), fault)) {
            Some(exception) if !found.is_empty() => drop(excepted.insert(*exception)),
            _ => wrong.extend(found),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(excepted, listed, "what is listed but not found is no exception any more");
    assert_eq!(stored().await, before);
}

#[test]
fn the_table_has_one_line_for_every_operation_and_no_other() {
    let document: BTreeSet<String> =
        operations().into_iter().map(|operation| operation.id).collect();
    let table: Vec<&str> = OPERATIONS.iter().map(|(id, ..)| *id).collect();
    assert!(table.is_sorted_by(|a, b| a < b), "sort OPERATIONS, without repetition");
    assert_eq!(table, document.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn a_scope_that_is_needed_is_one_that_a_key_can_have() {
    let unknown =
        OPERATIONS.iter().filter(|(_, scope, _)| !scope.is_empty() && !SCOPES.contains(scope));
    assert_eq!(unknown.count(), 0);
}

#[tokio::test]
async fn an_exception_that_is_none_would_be_found() {
    let world = World::new().await;
    let operations = operations();
    let find = |id: &str| operations.iter().find(|operation| operation.id == id).unwrap();
    assert_eq!(world.findings(find("agents_list"), NoKey).await, Vec::<String>::new());
    assert_eq!(world.findings(find("health_live"), NoKey).await.len(), 1);
    assert_eq!(world.findings(find("memory_load"), BrokenBody).await.len(), 1);
}
