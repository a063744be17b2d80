//! Every operation of the OpenAPI document with every id that it takes: the caller's, another tenant's, one
//! that never was, and none at all. What is another tenant's is answered as what never was, and stays as it
//! is. All of it with row-level security and without.
//!
//! Ids are found in the document: a parameter or member whose name ends with `id`, and those that
//! [`OTHER_IDS`] names. A new one is taken in by itself, unless it says what a body has to look like: then it
//! needs a line in [`MEMBERS`].

use std::collections::{BTreeMap, BTreeSet};

use agentling::app::Surroundings;
use agentling::http::openapi_document;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use super::secrets::SEALING;
use super::walk::{BOOTSTRAP, Operation, SCOPES, SECRET_NAME, Takes, World, not_there, operations};
use super::{pointers, speaker, without_ids};
use crate::support::{
    Answer, FakeTools, TestApp, TestDb, agent_with, calling, client_tool, mint_key, stored,
    waiting_calls,
};

/// What names something of the caller's without being called an id.
const OTHER_IDS: [&str; 6] = ["name", "agent", "server", "secret", "skills", "webhook"];

/// Parameters of paths that count or name something within what an id names.
const WITHIN: [&str; 5] = ["scope", "version", "n", "call_id", "block_id"];

/// The name of the agent, skill, server and secret that only the other tenant has.
const THEIRS: &str = "theirs";

/// What is no id, nor a name.
const MALFORMED: &str = "not an id";

/// What a member of a body names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Agent,
    Thread,
    Webhook,
    Server,
    Secret,
    Skill,
    /// Nothing of anybody's, for this reason.
    Nothing,
}

/// Members of bodies by the end of their pointer, and how a body looks that has them: what stands in place
/// of `X`.
const MEMBERS: &[(&str, Names, &str)] = &[
    ("/agent_id", Names::Agent, r#"{"agent_id":"X"}"#),
    ("/thread_id", Names::Thread, r#"{"thread_id":"X"}"#),
    ("/webhook", Names::Webhook, r#"{"webhook":"X"}"#),
    ("/tools/*/agent", Names::Agent, r#"{"tools":[{"kind":"agent","name":"t","agent":"X"}]}"#),
    ("/tools/*/server", Names::Server, r#"{"tools":[{"kind":"mcp","server":"X"}]}"#),
    (
        "/tools/*/headers/{}/secret",
        Names::Secret,
        r#"{"tools":[{"kind":"http","name":"t","url":"https://example.com/","parameters":{"type":"object"},"headers":{"x-key":{"secret":"X"}}}]}"#,
    ),
    ("/tool/agent", Names::Agent, r#"{"tool":{"kind":"agent","name":"t","agent":"X"}}"#),
    ("/tool/server", Names::Server, r#"{"tool":{"kind":"mcp","server":"X"}}"#),
    (
        "/tool/headers/{}/secret",
        Names::Secret,
        r#"{"tool":{"kind":"http","name":"t","url":"https://nowhere.invalid/","parameters":{"type":"object"},"headers":{"x-key":{"secret":"X"}}}}"#,
    ),
    ("/headers/{}/secret", Names::Secret, r#"{"headers":{"x-key":{"secret":"X"}}}"#),
    (
        "/model/api_key/secret",
        Names::Secret,
        r#"{"model":{"provider":"openai","name":"m","base_url":"https://example.com/","api_key":{"secret":"X"}}}"#,
    ),
    ("/skills", Names::Skill, r#"{"skills":["X"]}"#),
    ("/skills/*/name", Names::Skill, r#"{"skills":[{"name":"X"}]}"#),
    // What is made is called as its maker likes, and so is what is part of it.
    ("/name", Names::Nothing, ""),
    ("/id", Names::Nothing, ""),
    ("/max_call_id", Names::Nothing, ""),
    ("/agent", Names::Nothing, ""),
    // See the test of calls.
    ("/tool_call_id", Names::Nothing, ""),
];

/// Where a member is not looked up, so that one's own is answered as others': for this reason.
const UNREACHED: &[(&str, &str, &str)] = &[
    ("skills_create", "/agent", "a skill brings no agents"),
    ("skills_create", "/server", "a skill brings no servers"),
    ("skills_put", "/agent", "a skill brings no agents"),
    ("skills_put", "/server", "a skill brings no servers"),
    ("threads_compact", "/agent", "there is nothing that an agent could tell shorter"),
    ("threads_compact", "/agent_id", "there is nothing that an agent could tell shorter"),
    ("threads_compact", "/secret", "there is nothing that an agent could tell shorter"),
    ("threads_compact", "/server", "there is nothing that an agent could tell shorter"),
    ("tools_test", "/agent", "an agent is no tool that can be tried out"),
    ("tools_test", "/server", "a server is tried out by itself"),
];

/// Operations that make what a path names, so that nothing is missing there.
const MAKING: [&str; 1] = ["secrets_put"];

/// Two tenants who have the same things, on two servers over one database.
struct Two {
    own: World,
    other: World,
}

impl Two {
    async fn on(db: TestDb) -> Self {
        let tools = FakeTools::start().await;
        let settings = [("AGENTLING_API_KEY", BOOTSTRAP), SEALING];
        let server = async || {
            TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default()).await
        };
        let own = World::of(server().await.with_key(BOOTSTRAP)).await;
        let app = server().await;
        let key = mint_key(&app, "other", &["admin"]).await;
        let other = World::of(app.with_key(&key)).await;
        other.app.create_agent(&speaker(THEIRS, "Hello.")).await;
        let skill = json!({"name": THEIRS, "description": "d", "instructions": "i"});
        other.app.post("/v1/skills", &skill).await.expect(201);
        let server = json!({"name": THEIRS, "url": tools.url("mcp")});
        other.app.post("/v1/mcp-servers", &server).await.expect(201);
        let secret = json!({"value": "hunter22", "origins": [tools.origin()]});
        other.app.put(&format!("/v1/secrets/{THEIRS}"), &secret).await.expect(200);
        Self { own, other }
    }

    /// Everything of the other tenant, save what goes on by itself.
    async fn theirs(&self) -> BTreeMap<String, String> {
        let mut connection = self.own.app.db.connect().await;
        let tables: Vec<String> = sqlx::query_scalar(
            "SELECT table_name::text FROM information_schema.columns
              WHERE table_schema = 'public' AND column_name = 'tenant_id'
                AND table_name NOT IN ('webhook_delivery', 'run_lease')",
        )
        .fetch_all(&mut connection)
        .await
        .unwrap();
        let mut found = BTreeMap::new();
        for table in tables {
            // The names come from the catalogue.
            let sql = AssertSqlSafe(format!(
                "SELECT coalesce(md5(string_agg(x::text, chr(10) ORDER BY x::text)), '')
                   FROM {table} x WHERE tenant_id = 'other'"
            ));
            let hash = sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap();
            found.insert(table, hash);
        }
        found
    }

    /// Everything that is stored, save what goes on by itself.
    async fn everything(&self) -> impl PartialEq + std::fmt::Debug {
        let mut stored = stored(&self.own.app.db).await;
        stored.remove("webhook_delivery");
        stored
    }

    /// Asks as the first tenant, with what the operation takes as its body.
    async fn ask(&self, operation: &Operation, path: &str, body: &str) -> Answer {
        assert!(!path.contains('{'), "`World::real` has nothing for a parameter of {path}");
        let app = &self.own.app;
        send(app, app.key().unwrap(), (operation, path), body).await
    }
}

/// Asks with a key, and with a body where the operation takes one.
async fn send(
    app: &TestApp,
    key: &str,
    (operation, path): (&Operation, &str),
    body: &str,
) -> Answer {
    let method = operation.method.parse().unwrap();
    let request = app.client().request(method, app.url(path)).bearer_auth(key);
    if operation.takes == Takes::Nothing {
        return app.send(request).await;
    }
    app.send(request.header("content-type", "application/json").body(body.to_owned())).await
}

/// An id that never was, beside one that is.
fn never(id: &str) -> String {
    let (start, last) = id.split_at(id.len() - 1);
    format!("{start}{}", if last == "0" { "1" } else { "0" })
}

fn body_of(operation: &Operation) -> &'static str {
    match operation.takes {
        Takes::Nothing => "",
        Takes::Json(body) | Takes::Maybe(body) => body,
    }
}

fn is_id(name: &str) -> bool {
    name.ends_with("id") || OTHER_IDS.contains(&name)
}

/// The parameters of a path that are ids.
fn path_ids(operation: &Operation) -> Vec<&str> {
    let parameters = operation.path.split('/').filter_map(|segment| segment.strip_prefix('{'));
    let parameters = parameters.filter_map(|segment| segment.strip_suffix('}'));
    let (within, ids): (Vec<_>, Vec<_>) = parameters.partition(|name| WITHIN.contains(name));
    let strange: Vec<&&str> = ids.iter().filter(|name| !is_id(name)).collect();
    assert!(strange.is_empty(), "{}: is {strange:?} an id, or {within:?}?", operation.id);
    ids
}

/// The document's part of an operation.
fn documented<'a>(document: &'a Value, operation: &Operation) -> &'a Value {
    &document["paths"][&operation.path][operation.method.to_lowercase()]
}

/// A path with one of its ids replaced, and the others the caller's own.
fn path_with(world: &World, operation: &Operation, parameter: &str, id: &str) -> String {
    world.real(&operation.path.replace(&format!("{{{parameter}}}"), &id.replace(' ', "%20")))
}

/// The ids of a parameter that are not the caller's: another tenant's, one that never was, none at all.
fn strange_ids(two: &Two, parameter: &str) -> [String; 3] {
    let template = format!("{{{parameter}}}");
    let (own, theirs) = (two.own.real(&template), two.other.real(&template));
    let theirs = if own == theirs { THEIRS.to_owned() } else { theirs };
    [theirs, never(&own), MALFORMED.to_owned()]
}

async fn paths_hold(two: &Two) -> Vec<String> {
    let (operations, mut wrong) = (operations(), Vec::new());
    let asked = operations.iter().filter(|it| !MAKING.contains(&it.id.as_str()));
    for (operation, path) in asked.flat_map(|operation| strange_paths(two, operation)) {
        let answer = two.ask(operation, &path, body_of(operation)).await;
        if answer.status != 404 || without_ids(answer.json()) != not_there() {
            wrong.push(format!("{} {path}: {answer:?}", operation.id));
        }
    }
    wrong
}

/// The paths of an operation in which one id is another's, nobody's or none.
fn strange_paths<'o>(two: &Two, operation: &'o Operation) -> Vec<(&'o Operation, String)> {
    let ids = path_ids(operation)
        .into_iter()
        .flat_map(|parameter| strange_ids(two, parameter).map(|id| (parameter, id)));
    ids.map(|(parameter, id)| (operation, path_with(&two.own, operation, parameter, &id))).collect()
}

/// Asks for what is the caller's own: what removes it comes last, and what others are part of at the end.
async fn own_is_found(two: &Two) -> Vec<String> {
    let mut operations = operations();
    let ends =
        ["budgets_remove", "memory_reset", "runs_delete", "threads_delete", "agents_archive"];
    operations.sort_by_key(|operation| {
        let end = ends.iter().position(|id| *id == operation.id).map(|place| place + 1);
        (operation.method == "DELETE", end.unwrap_or(0))
    });
    let mut wrong = Vec::new();
    for operation in operations.iter().filter(|operation| !path_ids(operation).is_empty()) {
        let path = two.own.real(&operation.path);
        let answer = two.ask(operation, &path, body_of(operation)).await;
        if answer.slug() == "not-found" || answer.status == 500 {
            wrong.push(format!("{} {path}: {answer:?}", operation.id));
        }
    }
    wrong
}

async fn queries_hold(two: &Two) -> Vec<String> {
    let document = openapi_document();
    let mut wrong = Vec::new();
    for operation in operations() {
        let parameters = documented(&document, &operation)["parameters"].as_array();
        let queries = parameters.into_iter().flatten().filter(|it| it["in"] == "query");
        for name in queries.map(|parameter| parameter["name"].as_str().unwrap()) {
            if !name.ends_with("id") {
                continue;
            }
            let of = format!("{{{}}}", name.strip_prefix("parent_").unwrap_or(name));
            let path = two.own.real(&operation.path);
            let ask = async |id: &str| {
                two.ask(&operation, &format!("{path}?{name}={}", id.replace(' ', "%20")), "").await
            };
            let own = ask(&two.own.real(&of)).await;
            let theirs = ask(&two.other.real(&of)).await;
            let never = ask(&never(&two.own.real(&of))).await;
            let malformed = ask(MALFORMED).await;
            let is_empty = |answer: &Answer| answer.json()["items"] == json!([]);
            let is_right = own.status == 200
                && (name.starts_with("parent_") || !is_empty(&own))
                && (theirs.status, &theirs.text) == (never.status, &never.text)
                && (theirs.slug() == "not-found" || is_empty(&theirs))
                && (malformed.status == 400 || malformed.text == never.text);
            if !is_right {
                let answers = [own, theirs, never, malformed];
                wrong.push(format!("{} {name}: {answers:?}", operation.id));
            }
        }
    }
    wrong
}

/// The pointers of a body's members that are called ids.
fn body_ids(document: &Value, operation: &Operation) -> BTreeSet<String> {
    let content = &documented(document, operation)["requestBody"]["content"];
    let mut found = BTreeSet::new();
    let schema = &content["application/json"]["schema"];
    members(document, schema, "", &mut Vec::new(), &mut found);
    found.into_iter().filter(|at| is_id(at.rsplit('/').next().unwrap())).collect()
}

/// The pointers of all members that a schema tells of.
fn members<'a>(
    document: &'a Value,
    schema: &'a Value,
    at: &str,
    above: &mut Vec<&'a str>,
    found: &mut BTreeSet<String>,
) {
    if let Some(reference) = schema["$ref"].as_str() {
        if !above.contains(&reference) {
            above.push(reference);
            let target = document.pointer(reference.trim_start_matches('#')).unwrap();
            members(document, target, at, above, found);
            above.pop();
        }
        return;
    }
    let choices = ["oneOf", "anyOf", "allOf"].map(|word| schema[word].as_array());
    for choice in choices.into_iter().flatten().flatten() {
        members(document, choice, at, above, found);
    }
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let at = format!("{at}/{name}");
        found.insert(at.clone());
        members(document, member, &at, above, found);
    }
    members_of_many(document, schema, at, above, found);
}

fn members_of_many<'a>(
    document: &'a Value,
    schema: &'a Value,
    at: &str,
    above: &mut Vec<&'a str>,
    found: &mut BTreeSet<String>,
) {
    for (many, step) in [("items", "*"), ("additionalProperties", "{}")] {
        if schema[many].is_object() {
            members(document, &schema[many], &format!("{at}/{step}"), above, found);
        }
    }
}

/// What a member names, and where its body's part belongs that it stands in.
fn member_of(operation: &Operation, at: &str) -> (Names, &'static str, String) {
    let fitting = MEMBERS.iter().filter(|(end, ..)| at.ends_with(end));
    let longest = fitting.max_by_key(|(end, ..)| end.len());
    let (end, names, shape) = longest
        .unwrap_or_else(|| panic!("{}: say in MEMBERS what {at} of the body names", operation.id));
    (*names, shape, at.strip_suffix(end).unwrap().to_owned())
}

/// What an operation takes, of the caller's own: what is made has a new name, what is replaced keeps its.
async fn own_body(two: &Two, operation: &Operation, path: &str, n: usize) -> Value {
    let mut body: Value = serde_json::from_str(body_of(operation)).unwrap();
    if body["name"].is_string() && operation.method == "PUT" {
        body["name"] = two.own.app.get(path).await.expect(200)["name"].clone();
    } else if body["name"].is_string() {
        body["name"] = json!(format!("n{n}"));
    }
    if body["agent_id"].is_string() {
        body["agent_id"] = json!(two.own.real("{agent_id}"));
    }
    body
}

/// A body in which a member names this.
fn body_with(mut body: Value, (shape, within): (&str, &str), id: &str) -> String {
    let part: Value = serde_json::from_str(&shape.replace('X', id)).unwrap();
    let members = body.as_object_mut().unwrap();
    if within == "/agent" || part["agent_id"].is_string() {
        members.retain(|member, _| !["agent_id", "agent", "summary"].contains(&member.as_str()));
    }
    if within == "/agent" {
        members.insert("agent".to_owned(), speaker("b", "Hello."));
    }
    if let Some(target) = body.pointer_mut(within).and_then(Value::as_object_mut) {
        target.extend(part.as_object().unwrap().clone());
    }
    body.to_string()
}

/// The ids that a member may have: the caller's own, others' and ones that never were.
fn ids_of(two: &Two, names: Names) -> (String, Vec<String>, Vec<String>) {
    let by_id = |template: &str| {
        let (own, theirs) = (two.own.real(template), two.other.real(template));
        let other = never(&own);
        (own, vec![theirs], vec![other])
    };
    let by_name = |own: &str| (own.to_owned(), vec![THEIRS.to_owned()], vec!["nobodys".to_owned()]);
    match names {
        Names::Thread => by_id("{thread_id}"),
        Names::Webhook => by_id("{webhook_id}"),
        Names::Agent => {
            let (own, mut theirs, mut never) = by_id("{agent_id}");
            theirs.push(THEIRS.to_owned());
            never.push("nobodys".to_owned());
            (own, theirs, never)
        }
        Names::Server => by_name("walked"),
        Names::Secret => by_name(SECRET_NAME),
        Names::Skill => by_name("s"),
        Names::Nothing => (String::new(), Vec::new(), Vec::new()),
    }
}

/// What an answer says, whatever it was asked about.
fn said(answer: &Answer, id: &str) -> (u16, Value) {
    if answer.status < 300 {
        return (answer.status, Value::Null);
    }
    let text = answer.text.replace(id, "X");
    let mut said = without_ids(serde_json::from_str(&text).unwrap_or_default());
    if let Some(outcome) = said["outcome"].as_object_mut() {
        for other in ["tool_call_id", "started_at", "finished_at"] {
            outcome.remove(other);
        }
    }
    (answer.status, said)
}

async fn bodies_hold(two: &Two) -> (Vec<String>, usize) {
    let (document, mut wrong, mut n_asked) = (openapi_document(), Vec::new(), 0);
    for operation in operations().iter().filter(|it| it.takes != Takes::Nothing) {
        for at in body_ids(&document, operation) {
            let (names, shape, within) = member_of(operation, &at);
            let (own, theirs, never) = ids_of(two, names);
            for (theirs, never) in theirs.iter().zip(&never) {
                let ids = [own.as_str(), theirs, never, MALFORMED];
                let answers = answers(two, operation, (shape, &within), (ids, n_asked)).await;
                n_asked += ids.len();
                let is_right = is_right(operation, &at, (ids, &answers));
                let texts = answers.map(|answer| answer.text);
                wrong.extend(
                    (!is_right).then(|| format!("{} {at} {theirs}: {texts:#?}", operation.id)),
                );
            }
        }
    }
    (wrong, n_asked)
}

/// What an operation answers when a member of its body names one thing and another.
async fn answers(
    two: &Two,
    operation: &Operation,
    member: (&str, &str),
    (ids, n_before): ([&str; 4], usize),
) -> [Answer; 4] {
    let path = two.own.real(&operation.path);
    let mut answers = Vec::new();
    for (id, n) in ids.into_iter().zip(n_before..) {
        let body = own_body(two, operation, &path, n).await;
        answers.push(two.ask(operation, &path, &body_with(body, member, id)).await);
    }
    answers.try_into().unwrap()
}

/// What is another tenant's is refused as what never was, and one's own is not.
fn is_right(operation: &Operation, at: &str, (ids, answers): ([&str; 4], &[Answer; 4])) -> bool {
    let mut unreached = UNREACHED.iter();
    let is_reached = !unreached.any(|(id, end, _)| operation.id == *id && at.ends_with(end));
    let [own, theirs, never, malformed] = answers;
    let [own_id, their_id, no_id, _] = ids;
    said(theirs, their_id) == said(never, no_id)
        && answers.iter().all(|answer| answer.status != 500)
        && theirs.status >= 400
        && malformed.status >= 400
        && (!is_reached || said(own, own_id) != said(theirs, their_id))
}

async fn the_matrix_holds(db: TestDb) {
    let two = Two::on(db).await;
    let (everything, theirs) = (two.everything().await, two.theirs().await);
    let mut wrong = paths_hold(&two).await;
    wrong.extend(queries_hold(&two).await);
    assert_eq!(two.everything().await, everything, "nothing is changed by what is refused");
    let (of_bodies, n_bodies) = bodies_hold(&two).await;
    wrong.extend(of_bodies);
    assert!(n_bodies > 100, "bodies have ids");
    wrong.extend(own_is_found(&two).await);
    assert!(wrong.is_empty(), "{} cells are wrong\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(two.theirs().await, theirs, "nothing of another tenant is changed");
}

#[tokio::test]
async fn an_id_of_another_tenant_is_answered_as_one_that_never_was() {
    the_matrix_holds(TestDb::plain().await).await;
}

#[tokio::test]
async fn an_id_of_another_tenant_is_answered_as_one_that_never_was_behind_row_level_security() {
    the_matrix_holds(TestDb::walled().await).await;
}

/// Runs of two tenants that wait for a client tool, each with its call.
async fn waiting(two: &Two) -> [(Value, String); 2] {
    let agent = agent_with(&[calling(&["ask"])], &[client_tool("ask")]);
    let mut waiting = Vec::new();
    for world in [&two.own, &two.other] {
        let run = world.app.parked(&json!({"agent": agent, "input": "hi"})).await;
        let call = waiting_calls(&run).swap_remove(0);
        waiting.push((run, call));
    }
    waiting.try_into().unwrap()
}

#[tokio::test]
async fn a_call_of_another_tenant_is_answered_as_one_that_never_was() {
    for db in [TestDb::plain().await, TestDb::walled().await] {
        let two = Two::on(db).await;
        let [(run, own), (_, theirs)] = waiting(&two).await;
        let before = two.theirs().await;
        let app = &two.own.app;
        for call in [theirs, never(&own)] {
            let output = json!(1);
            let refused = app.give_result(&run, &call, &output).await;
            refused.expect_problem(422, "unknown-tool-call");
            let refused = app.decide(&run, &call, &json!({"approve": true})).await;
            refused.expect_problem(422, "unknown-tool-call");
            let refused = app.resolve(&run, &call, &json!({"outcome": "retry"})).await;
            assert!([404, 422].contains(&refused.status), "{refused:?}");
        }
        assert_eq!(two.theirs().await, before);
        app.give_result(&run, &own, &json!(1)).await.expect(200);
    }
}

/// Operations that take a memory document.
const DOCUMENTS: [&str; 2] = ["memory_load", "memory_validate"];

/// Members that say what only the server knows.
const READ_ONLY: [&str; 7] =
    ["tenant_id", "status", "seq", "epoch", "usage", "created_at", "updated_at"];

#[tokio::test]
async fn what_only_the_server_knows_is_refused_in_every_body() {
    let app = TestApp::with(&[("AGENTLING_API_KEY", BOOTSTRAP), SEALING]).await;
    let world = World::of(app.with_key(BOOTSTRAP)).await;
    let mut wrong = Vec::new();
    for operation in operations() {
        // A memory document has a reader of its own, which lists what is wrong with it.
        if operation.takes == Takes::Nothing || DOCUMENTS.contains(&operation.id.as_str()) {
            continue;
        }
        for member in READ_ONLY {
            let mut body: Value = serde_json::from_str(body_of(&operation)).unwrap();
            body[member] = json!("x");
            let path = world.real_path(&operation);
            let (asked, key) = ((&operation, path.as_str()), world.app.key().unwrap());
            let answer = send(&world.app, key, asked, &body.to_string()).await;
            let pointer = format!("/{member}");
            let is_right =
                answer.slug() == "unknown-field" && pointers(&answer.json()) == [pointer];
            wrong.extend((!is_right).then(|| format!("{} {member}: {answer:?}", operation.id)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_key_does_what_its_scope_allows_and_nothing_else() {
    let app = TestApp::with(&[("AGENTLING_API_KEY", BOOTSTRAP), SEALING]).await;
    let world = World::of(app.with_key(BOOTSTRAP)).await;
    let mut wrong = Vec::new();
    for scope in SCOPES {
        // A tenant who has nothing, so that what is allowed changes nothing.
        let key = mint_key(&world.app, "nobody", &[scope]).await;
        for operation in operations() {
            let path = world.real(&operation.path);
            let answer = send(&world.app, &key, (&operation, &path), "{").await;
            let is_allowed = ["", scope].contains(&operation.scope) || scope == "admin";
            let is_refused = (answer.status, answer.slug().as_str()) == (403, "insufficient-scope");
            let is_wrong = is_allowed == is_refused || answer.status == 401 || answer.status >= 500;
            wrong.extend(is_wrong.then(|| format!("{} with {scope}: {answer:?}", operation.id)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
