//! The commands, as an operator types them.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use agentling::app::Surroundings;
use serde_json::{Value, json};

use crate::support::{
    Answer, FakeTools, ManualClock, SYSTEM_ROLE, TENANT_ROLE, TestApp, TestDb, count,
};

/// The program with these arguments and nothing in its environment but these settings.
fn agentling(arguments: &[&str], settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentling"));
    command.args(arguments).env_clear().envs(settings.iter().copied()).stdin(Stdio::null());
    command
}

/// Runs it to its end.
async fn run(arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    let mut command = agentling(arguments, settings);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// What it printed, when all went well.
#[track_caller]
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A server in a process of its own.
struct Server {
    process: Child,
    base: String,
    /// What it logs after the lines that were waited for.
    rest: Option<std::thread::JoinHandle<String>>,
}

impl Server {
    /// Starts it and reads its log until a line holds a text.
    async fn start(arguments: &[&str], settings: &[(&str, &str)], until: &'static str) -> Self {
        let mut command = agentling(arguments, settings);
        let listen = free_address();
        command.env("AGENTLING_LISTEN", &listen).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap());
        let lines = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            while !line.contains(until) {
                line.clear();
                assert_ne!(lines.read_line(&mut line).unwrap(), 0, "it ended before {until:?}");
            }
            lines
        });
        let mut lines = lines.await.unwrap();
        let rest = std::thread::spawn(move || {
            let mut rest = String::new();
            lines.read_to_string(&mut rest).unwrap();
            rest
        });
        Self { process, base: format!("http://{listen}"), rest: Some(rest) }
    }

    async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, "").await
    }

    /// Sends a text as JSON.
    async fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.request(method.parse().unwrap(), format!("{}{path}", self.base));
        let request = request.header("content-type", "application/json").body(body.to_owned());
        // A run is answered when it has ended.
        let request = if method == "POST" { request.header("prefer", "wait=60") } else { request };
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, text: response.text().await.unwrap() }
    }

    /// Asks it to end, as an operator would; answers its exit code and the rest of its log.
    async fn stop(mut self) -> (Option<i32>, String) {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let rest = self.rest.take().unwrap();
        tokio::task::spawn_blocking(move || {
            (self.process.wait().unwrap().code(), rest.join().unwrap())
        })
        .await
        .unwrap()
    }
}

/// An address of this machine that nothing listens on.
fn free_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// The id of the key that a text begins with.
fn key_id(key: &str) -> String {
    format!("key_{}", key.split('_').nth(1).unwrap())
}

async fn get_with(app: &TestApp, path: &str, key: &str) -> Answer {
    app.send(app.request("GET", path).bearer_auth(key)).await
}

#[tokio::test]
async fn a_key_is_shown_once_works_is_listed_without_its_secret_and_is_revoked() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let clock = Arc::new(ManualClock::new());
    let around =
        Surroundings { clock: Arc::<ManualClock>::clone(&clock), ..Surroundings::default() };
    let app = TestApp::on(db, tools, &[], around).await;
    let settings = [("DATABASE_URL", app.db.url.as_str())];
    let create =
        ["keys", "create", "--name", "reader", "--scope", "agents:read", "--scope", "runs:read"];
    let made = run(&create, &settings).await;
    let text = printed(&made);
    let key = text.trim_end_matches('\n').to_owned();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(key.starts_with("ag_") && !said(&made).contains(&key), "{made:?}");
    get_with(&app, "/v1/agents", &key).await.expect(200);
    get_with(&app, "/v1/threads", &key).await.expect_problem(403, "insufficient-scope");

    let listed = printed(&run(&["keys", "list"], &settings).await);
    let secret = key.splitn(3, '_').nth(2).unwrap();
    assert!(!listed.contains(secret), "{listed}");
    for part in [key_id(&key).as_str(), "reader", "agents:read", "runs:read", "active"] {
        assert!(listed.contains(part), "{listed}");
    }
    assert_eq!(printed(&run(&["keys", "list", "--tenant", "other"], &settings).await), "");

    let id = key_id(&key);
    let foreign = run(&["keys", "revoke", &id, "--tenant", "other"], &settings).await;
    assert!(!foreign.status.success(), "{foreign:?}");
    get_with(&app, "/v1/agents", &key).await.expect(200);
    printed(&run(&["keys", "revoke", &id], &settings).await);
    assert!(printed(&run(&["keys", "list"], &settings).await).contains("revoked"));
    clock.advance(Duration::from_secs(30));
    get_with(&app, "/v1/agents", &key).await.expect_problem(401, "unauthenticated");
    // Revoking is for good, and a server that had a key does not open again.
    printed(&run(&["keys", "revoke", &id], &settings).await);
    app.get("/v1/agents").await.expect_problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_key_acts_for_its_tenant_and_without_scopes_may_do_everything() {
    let app = TestApp::start().await;
    let settings = [("DATABASE_URL", app.db.url.as_str())];
    app.create_agent(&json!({ "name": "a", "model": { "provider": "scripted", "name": "m" } }))
        .await;
    let text = printed(&run(&["keys", "create", "--tenant", "other"], &settings).await);
    let key = text.trim();
    get_with(&app, "/v1/agents/a", key).await.expect_problem(404, "not-found");
    get_with(&app, "/v1/threads", key).await.expect(200);
    let listed = printed(&run(&["keys", "list", "--tenant", "other"], &settings).await);
    assert!(listed.contains("admin"), "{listed}");
}

#[tokio::test]
async fn a_key_command_that_cannot_be_meant_is_refused() {
    let db = TestDb::new().await;
    let settings = [("DATABASE_URL", db.url.as_str())];
    for arguments in [
        &["keys"][..],
        &["keys", "create", "--scope", "everything"],
        &["keys", "create", "--tenant", "A b"],
        &["keys", "create", "--expires-in-days", "0"],
        &["keys", "revoke"],
        &["keys", "revoke", "x"],
        &["keys", "revoke", "key_0198f2c4a1b27cde8f00112233445566"],
        &["keys", "list", "--tenant", ""],
    ] {
        let output = run(arguments, &settings).await;
        assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?} {output:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
    assert_eq!(printed(&run(&["keys", "list"], &settings).await), "");
}

#[tokio::test]
async fn every_mistake_in_the_settings_is_reported_at_once() {
    let settings = [
        ("AGENTLING_LISTN", "127.0.0.1:8080"),
        ("AGENTLING_LISTEN", "everywhere"),
        ("AGENTLING_PUBLIC_URL", "ftp://example.com"),
        ("AGENTLING_API_KEY", "short-secret"),
        ("AGENTLING_CONCURRENCY", "many"),
        ("DATABASE_URL", "mysql://localhost/x"),
    ];
    for command in ["serve", "migrate", "demo", "health"] {
        let output = run(&[command], &settings).await;
        assert_eq!(output.status.code(), Some(1), "{command}: {output:?}");
        let text = said(&output);
        for (name, _) in settings {
            assert!(text.contains(name), "{command}: nothing about {name} in {text}");
        }
        assert!(!text.contains("short-secret") && !text.contains("panicked"), "{text}");
    }
}

#[tokio::test]
async fn the_document_is_written_to_standard_output_without_any_setting() {
    let text = printed(&run(&["openapi"], &[("AGENTLING_LISTEN", "nonsense")]).await);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document, agentling::http::openapi_document());
    assert!(text.ends_with("}\n"));
}

#[tokio::test]
async fn help_lists_every_setting() {
    let help = printed(&run(&["--help"], &[]).await);
    for setting in agentling::config::SETTINGS.iter() {
        assert!(help.contains(setting.name), "{} is missing", setting.name);
    }
}

#[tokio::test]
async fn health_tells_a_server_that_is_ready_from_none() {
    let app = TestApp::start().await;
    let address = app.running.address.to_string();
    let well = run(&["health"], &[("AGENTLING_LISTEN", &address)]).await;
    assert_eq!(well.status.code(), Some(0), "{well:?}");
    let nothing = run(&["health"], &[("AGENTLING_LISTEN", &free_address())]).await;
    assert_eq!(nothing.status.code(), Some(1), "{nothing:?}");
    assert!(said(&nothing).contains("does not answer"), "{nothing:?}");
}

#[tokio::test]
async fn a_server_without_any_key_does_not_open_to_the_network() {
    let db = TestDb::new().await;
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let settings = [("DATABASE_URL", db.url.as_str()), ("AGENTLING_LISTEN", listen)];
        let output = run(&["serve"], &settings).await;
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let text = said(&output);
        assert!(text.contains("without authentication"), "{text}");
        assert!(
            text.contains("agentling keys create") && text.contains("AGENTLING_API_KEY"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_server_that_may_not_migrate_is_ready_once_somebody_else_did() {
    let db = TestDb::empty().await;
    let settings = [("DATABASE_URL", db.url.as_str()), ("AGENTLING_POLL_MS", "50")];
    let waits = "waiting for `agentling migrate`";
    let server = Server::start(&["serve", "--no-migrate"], &settings, waits).await;
    server.get("/healthz").await.expect(200);
    let waiting = server.get("/readyz").await;
    assert_eq!(waiting.header("retry-after"), "1");
    waiting.expect_problem(503, "database-unavailable");
    server.get("/v1/agents").await.expect_problem(503, "database-unavailable");
    let address = server.base.trim_start_matches("http://").to_owned();
    let health = run(&["health"], &[("AGENTLING_LISTEN", &address)]).await;
    assert_eq!(health.status.code(), Some(1), "{health:?}");

    assert_eq!(printed(&run(&["migrate"], &settings).await), "");
    // It looks again by itself, and answers every time that it is asked meanwhile.
    while server.get("/readyz").await.status != 200 {}
    server.get("/v1/agents").await.expect(200);
    assert_eq!(server.stop().await.0, Some(0));
}

#[tokio::test]
async fn a_server_that_waits_for_its_schema_can_be_stopped() {
    let db = TestDb::empty().await;
    let settings = [("DATABASE_URL", db.url.as_str()), ("AGENTLING_POLL_MS", "3600000")];
    let waits = "waiting for `agentling migrate`";
    let server = Server::start(&["serve", "--no-migrate"], &settings, waits).await;
    assert_eq!(server.stop().await.0, Some(0));
}

#[tokio::test]
async fn migrating_twice_is_migrating_once() {
    let db = TestDb::empty().await;
    let settings = [("DATABASE_URL", db.url.as_str())];
    for _ in 0..2 {
        printed(&run(&["migrate"], &settings).await);
        assert!(db.store().is_ready().await.unwrap());
    }
}

#[tokio::test]
async fn a_key_in_a_query_is_not_in_the_log() {
    let db = TestDb::new().await;
    let settings = [
        ("DATABASE_URL", db.url.as_str()),
        ("AGENTLING_API_KEY", "a-key-of-the-operator"),
        ("AGENTLING_LOG", "trace"),
    ];
    let server = Server::start(&["serve"], &settings, "serving address=").await;
    server
        .get("/v1/agents?api_key=a-key-of-the-operator")
        .await
        .expect_problem(401, "unauthenticated");
    let (code, log) = server.stop().await;
    assert_eq!(code, Some(0));
    assert!(log.contains("/v1/agents") || log.contains("stopping"), "{log}");
    assert!(!log.contains("a-key-of-the-operator"), "{log}");
}

const OLD_KEY: &str = "one=AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
const NEW_KEY: &str = "two=AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

/// Runs an agent whose tool is sent a secret; answers the type of the tool's failure, or nothing.
async fn use_secret(app: &TestApp) -> Value {
    let run = app.run_body(&json!({ "agent_id": "a", "input": "go" })).await;
    app.outcomes(&run).await[0]["error"]["type"].clone()
}

#[tokio::test]
async fn keys_of_secrets_are_replaced_without_their_values() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let over = async |keys: &str| {
        let settings = [("AGENTLING_SECRET_KEYS", keys)];
        TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default()).await
    };
    let old = over(OLD_KEY).await;
    for n in 0..3 {
        let body =
            json!({ "value": format!("value-{n}-of-a-secret"), "origins": [tools.origin()] });
        old.put(&format!("/v1/secrets/key-{n}"), &body).await.expect(200);
    }
    let mut tool = crate::support::tool(&tools, "t", "pure", &json!({ "type": "object" }));
    tool["headers"] = json!({ "X-Key": { "secret": "key-0" } });
    let script = json!([{ "tool_calls": [{ "name": "t", "arguments": {} }] }, { "text": "done" }]);
    let model = json!({ "provider": "scripted", "name": "m", "script": script });
    old.create_agent(&json!({ "name": "a", "model": model, "tools": [tool] })).await;
    assert_eq!(use_secret(&old).await, Value::Null);
    old.running.stop().await;

    let early = over(NEW_KEY).await;
    assert_eq!(use_secret(&early).await, "SecretUnavailable", "the old key was removed too early");
    early.running.stop().await;

    let keys = format!("{NEW_KEY},{OLD_KEY}");
    let settings = [("DATABASE_URL", db.url.as_str()), ("AGENTLING_SECRET_KEYS", keys.as_str())];
    let alone = [("DATABASE_URL", db.url.as_str()), ("AGENTLING_SECRET_KEYS", NEW_KEY)];
    assert!(!run(&["secrets", "rewrap"], &alone).await.status.success());
    let sealed = "SELECT count(DISTINCT sealed) FROM secret WHERE kek_id = 'one'";
    assert_eq!(count(&db, sealed).await, 3);
    // Two at once do the work of one.
    let (one, other) = tokio::join!(
        run(&["secrets", "rewrap"], &settings),
        run(&["secrets", "rewrap"], &settings)
    );
    let n =
        |output: &Output| -> u32 { printed(output).split(' ').next().unwrap().parse().unwrap() };
    assert_eq!(n(&one) + n(&other), 3);
    assert_eq!(printed(&run(&["secrets", "rewrap"], &settings).await), "0 rewrapped\n");

    let new = over(NEW_KEY).await;
    assert_eq!(use_secret(&new).await, Value::Null);
    let sent: Vec<_> = tools.seen().iter().map(|call| call.headers["x-key"].clone()).collect();
    assert_eq!(sent, ["value-0-of-a-secret", "value-0-of-a-secret"]);
    new.running.stop().await;
}

/// Stores two secrets, well and badly; answers what was answered.
async fn store_canaries(server: &Server, origins: &[String]) -> Vec<Answer> {
    let mut all = Vec::new();
    for name in ["tool", "model"] {
        let value = format!("canary-of-the-{name}-1");
        let whole = json!({ "value": value, "origins": origins }).to_string();
        let wrong = json!({ "value": format!("{value}\n"), "origins": origins }).to_string();
        let broken = format!("{{\"value\": \"{value}");
        for body in [whole, wrong, broken] {
            all.push(server.send("PUT", &format!("/v1/secrets/{name}"), &body).await);
        }
    }
    all
}

/// Tools that are sent a secret, one of which nobody serves.
fn canary_tools(tools: &FakeTools, closed: &str) -> Vec<Value> {
    let tool = |(name, url): (&str, String)| {
        json!({ "kind": "http", "name": name, "url": url, "effect": "pure", "timeout_ms": 500,
                "parameters": { "type": "object" },
                "headers": { "Authorization": { "secret": "tool", "prefix": "Bearer " } } })
    };
    let served = ["echo", "fail", "move", "hang"].map(|name| (name, tools.url(name)));
    served.into_iter().chain([("closed", format!("http://{closed}/"))]).map(tool).collect()
}

#[tokio::test]
async fn the_log_at_its_loudest_holds_no_secret_whatever_goes_wrong() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let refusing = json!({ "error": { "message": "bad key canary-of-the-model-1" } }).to_string();
    let model = crate::support::FakeModel::start([crate::support::ModelReply::Status(
        401,
        "application/json",
        refusing,
    )])
    .await;
    let closed = free_address();
    let model_host = model.origin.strip_prefix("http://").unwrap();
    let allow = format!("{},{closed},{model_host}", tools.host);
    let settings = [
        ("DATABASE_URL", db.url.as_str()),
        ("AGENTLING_SECRET_KEYS", OLD_KEY),
        ("AGENTLING_LOG", "trace"),
        ("AGENTLING_EGRESS_ALLOW", allow.as_str()),
    ];
    let server = Server::start(&["serve"], &settings, "serving").await;
    let mut all = store_canaries(
        &server,
        &[tools.origin(), format!("http://{closed}"), model.origin.clone()],
    )
    .await;
    tools.answer("echo", |seen| (200, json!(seen.headers)));
    tools.answer("fail", |seen| (500, json!(seen.headers)));
    tools.answer_bytes("move", &[("location", "http://127.0.0.1/?key=canary-of-the-tool-1")], b"");
    tools.hold("hang");
    let declared = canary_tools(&tools, &closed);
    let calls: Vec<Value> =
        declared.iter().map(|tool| json!({ "name": tool["name"], "arguments": {} })).collect();
    let script = json!([{ "tool_calls": calls }, { "text": "done" }]);
    let scripted = json!({ "provider": "scripted", "name": "m", "script": script });
    let mut keyed = model.spec(true);
    keyed["api_key"] = json!({ "secret": "model" });
    for (spec, tools) in [(scripted, json!(declared)), (keyed, json!([]))] {
        let agent = json!({ "name": "a", "model": spec, "tools": tools });
        let body = json!({ "agent": agent, "input": "go" });
        all.push(server.send("POST", "/v1/runs", &body.to_string()).await);
    }
    all.push(server.get("/v1/runs").await);
    let sent: Vec<_> = tools.seen().into_iter().map(|call| call.headers).collect();
    let (code, log) = server.stop().await;
    assert_eq!(code, Some(0));
    assert!(log.lines().count() > 100, "the log is loud: {log}");
    for answer in &all {
        assert!(!answer.text.contains("canary"), "{}", answer.text);
    }
    assert!(sent.iter().any(|headers| headers["authorization"].contains("canary")), "{all:?}");
    let bearer = Some("Bearer canary-of-the-model-1".to_owned());
    assert_eq!(model.requests()[0].authorization, bearer, "{all:?}");
    let rows = crate::support::picture_everything(&db).await;
    let key = OLD_KEY.split_once('=').unwrap().1;
    for (sink, text) in [("log", &log), ("rows", &rows)] {
        let lines: Vec<_> =
            text.lines().filter(|line| line.contains("canary") || line.contains(key)).collect();
        assert!(lines.is_empty(), "{sink}: {lines:#?}");
    }
}

#[tokio::test]
async fn an_operator_applies_row_level_security_and_makes_keys_as_the_roles_of_servers() {
    // It is what makes the roles.
    TestDb::walled().await;
    let db = TestDb::plain().await;
    let owner = [("DATABASE_URL", db.url.as_str())];
    printed(&run(&["migrate", "--row-level-security", "on"], &owner).await);
    let forced = "SELECT count(*) FROM pg_class WHERE relforcerowsecurity";
    assert!(count(&db, forced).await > 20);
    let (tenant, system) = (db.url_of(TENANT_ROLE), db.url_of(SYSTEM_ROLE));
    let roles = [("DATABASE_URL", tenant.as_str()), ("AGENTLING_SYSTEM_DATABASE_URL", &system)];
    printed(&run(&["keys", "create", "--tenant", "acme"], &roles).await);
    assert!(printed(&run(&["keys", "list", "--tenant", "acme"], &roles).await).contains("key_"));
    let refused = run(&["migrate", "--row-level-security", "perhaps"], &owner).await;
    assert!(!refused.status.success() && said(&refused).contains("on or off"), "{refused:?}");
    printed(&run(&["migrate", "--row-level-security", "off"], &owner).await);
    assert_eq!(count(&db, forced).await, 0);
}
