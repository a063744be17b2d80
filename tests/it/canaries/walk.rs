//! Every way in which something goes wrong, walked with secrets in hand.

use serde_json::{Value, json};

use super::caller::Caller;
use super::peers::ECHOES;
use super::world::{
    CONTROL, DSN_PASSWORD, EXCEPTION, JWT, KEK, MCP_TOKEN, OTHERS_PROMPT, TOOL_HEADER, URL_KEY,
    VARIABLE, World,
};
use crate::support::{Call, until};

/// Requests that are refused before anything is looked at, and those that name what is not there.
pub(super) async fn requests(world: &World) {
    let a = world.a();
    for (scheme, credential) in [("Bearer", JWT), ("bearer", JWT), ("Basic", JWT), ("", JWT)] {
        for (method, path) in [("GET", "/v1/runs"), ("POST", "/v1/runs")] {
            let request = a.bare(method, path);
            a.send(request.header("authorization", format!("{scheme} {credential}")))
                .await
                .expect(401);
        }
    }
    a.send(a.bare("GET", "/v1/runs")).await.expect(401);
    a.send(a.bare("GET", &format!("/v1/runs?api_key={URL_KEY}"))).await.expect(401);
    for path in [
        format!("/v1/runs?api_key={URL_KEY}"),
        format!("/v1/agents?limit={URL_KEY}"),
        format!("/v1/agents?cursor={URL_KEY}"),
        format!("/healthz?key={URL_KEY}"),
    ] {
        a.get(&path).await;
    }
    unknown(world).await;
    refused_secrets(&a).await;
}

/// What a caller may not do, and what is not there.
async fn unknown(world: &World) {
    let (a, reader) = (world.a(), world.reader());
    let create = json!({ "agent_id": "none", "input": "hi" });
    reader.post("/v1/runs", &create).await.expect(403);
    reader.post("/v1/redaction/selftest", &json!({})).await.expect(403);
    for path in
        ["agents/none", "runs/run_0198f2c4a1b27cde8f00112233445566", "threads/x", "secrets/none"]
    {
        a.get(&format!("/v1/{path}")).await.expect(404);
    }
    a.ask("PATCH", "/v1/runs", &json!({})).await.expect(405);
    a.post("/v1/runs", &create).await;
}

/// Secrets that do not fit, and a tool that asks for a variable it may not have.
async fn refused_secrets(a: &Caller) {
    let origins = json!(["https://example.com"]);
    for body in [
        format!("{{\"value\": \"{TOOL_HEADER}"),
        format!("{{\"value\": \"{TOOL_HEADER}\", \"value\": \"{TOOL_HEADER}\"}}"),
        json!({ "value": TOOL_HEADER, "origins": origins, "extra": 1 }).to_string(),
        json!({ "value": format!("{TOOL_HEADER}\n"), "origins": origins }).to_string(),
        json!({ "value": format!("{TOOL_HEADER}\0"), "origins": origins }).to_string(),
        json!({ "value": [TOOL_HEADER], "origins": origins }).to_string(),
        json!({ "value": TOOL_HEADER, "origins": [TOOL_HEADER] }).to_string(),
        json!({ "value": TOOL_HEADER, "origins": [format!("https://x:{TOOL_HEADER}@example.com")] }).to_string(),
    ] {
        let answer = a.send(a.request("PUT", "/v1/secrets/tool", &body)).await;
        assert!(answer.status.is_some_and(|status| (400..500).contains(&status)), "{body}");
    }
    let variable = json!({ "kind": "http", "name": "t", "url": "https://example.com/",
        "parameters": { "type": "object" }, "headers": { "X-Key": { "secret": "env:SOME_OTHER_TOKEN" } } });
    let model = json!({ "provider": "scripted", "name": "m" });
    a.post("/v1/agents", &json!({ "name": "a", "model": model, "tools": [variable] }))
        .await
        .expect(422);
}

/// Models that refuse, break, fall silent, and repeat the operator's key.
pub(super) async fn models(world: &World) {
    let echo = tool(world, "echo", &format!("http://{}/body", world.echo));
    let mut specs = Vec::new();
    for model in &world.models {
        specs.extend([model.spec(true), model.spec(false)]);
    }
    for base_url in [format!("https://{}/v1", world.tls), format!("http://{}/v1", world.closed)] {
        specs.push(json!({ "provider": "openai", "name": "m", "base_url": base_url }));
    }
    let runs = specs.into_iter().map(async |spec| {
        let agent = json!({ "name": "a", "model": spec, "tools": [echo], "model_timeout_ms": 2000,
                            "instructions": CONTROL, "max_steps": 2 });
        world.a().run(&agent, CONTROL).await
    });
    let runs = futures::future::join_all(runs).await;
    let ended = runs.iter().filter(|run| run["status"] == "completed").count();
    assert!(ended >= 4 && ended < runs.len() - 8, "{runs:#?}");
    assert!(world.models.iter().all(|model| !model.requests().is_empty()));
}

/// A tool that is sent the secret.
fn tool(world: &World, name: &str, url: &str) -> Value {
    assert!(!world.echo.is_empty());
    // A large answer is to be found too large, however long this machine takes for it.
    let timeout_ms = if name == "big" { 30_000 } else { 2_000 };
    json!({ "kind": "http", "name": name, "url": url, "effect": "pure", "timeout_ms": timeout_ms,
            "on_in_doubt": "observe", "parameters": { "type": "object" },
            "headers": { "Authorization": { "secret": "tool", "prefix": "Bearer " } } })
}

/// A model that calls every tool once.
fn calling(names: &[&str]) -> Value {
    let calls: Vec<Value> =
        names.iter().map(|name| json!({ "name": name, "arguments": {} })).collect();
    json!({ "provider": "scripted", "name": "m",
            "script": [{ "tool_calls": calls }, { "text": CONTROL }] })
}

/// Tools that give the secret back in every place, are not there, or are not who they should be.
pub(super) async fn tools(world: &World) {
    let mut tools: Vec<Value> = ECHOES
        .iter()
        .map(|name| tool(world, name, &format!("http://{}/{name}", world.echo)))
        .collect();
    tools.push(tool(world, "tls", &format!("https://{}/", world.tls)));
    tools.push(tool(world, "closed", &format!("http://{}/", world.closed)));
    tools.push(tool(world, "hang", &world.tools.url("hang")));
    world.tools.hold("hang");
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    for redacts in [false, true] {
        let agent = json!({ "name": "a", "model": calling(&names), "tools": tools, "redact_errors": redacts });
        let run = world.a().run(&agent, "go").await;
        assert_eq!(run["status"], "completed", "{run}");
    }
    let elsewhere =
        ["https://example.com/", "https://10.0.0.1/"].map(|url| tool(world, "elsewhere", url));
    for tool in tools.iter().chain(&elsewhere) {
        world.a().post("/v1/tools/test", &json!({ "tool": tool })).await;
    }
    find_too_large(world).await;
    world.tools.answer("throws", |_| (500, json!({ "trace": EXCEPTION })));
    let throws = [tool(world, "throws", &world.tools.url("throws"))];
    let agent = json!({ "name": "a", "model": calling(&["throws"]), "tools": throws, "redact_errors": true });
    let run = world.a().run(&agent, "go").await;
    assert_eq!(run["status"], "completed", "{run}");
}

/// Tests the tool with the large answer until that is found too large: on a busy machine, it may not come in
/// time at first.
async fn find_too_large(world: &World) {
    let body = json!({ "tool": tool(world, "big", &format!("http://{}/big", world.echo)) });
    let mut told = String::new();
    let found = async {
        while !told.contains("ResponseTooLarge") {
            told = world.a().post("/v1/tools/test", &body).await.text;
        }
    };
    let found = tokio::time::timeout(std::time::Duration::from_mins(1), found).await;
    assert!(found.is_ok(), "{told}");
}

/// MCP servers that tell their token in lists, contents and errors.
pub(super) async fn mcp(world: &World) {
    let headers = json!({ "Authorization": { "secret": "mcp", "prefix": "Bearer " } });
    let servers = [
        ("talks", world.mcp.url()),
        ("tls", format!("https://{}/mcp", world.tls)),
        // The log names a server that a run goes on without.
        (CONTROL, format!("http://{}/mcp", world.closed)),
        ("echo", format!("http://{}/failure", world.echo)),
        ("noise", format!("http://{}/garbage", world.echo)),
    ];
    for (name, url) in &servers {
        let body =
            json!({ "name": name, "url": url, "headers": headers, "connect_timeout_ms": 2000 });
        let made = world.a().post("/v1/mcp-servers", &body).await.expect(201);
        world
            .a()
            .post(&format!("/v1/mcp-servers/{}/test", made["id"].as_str().unwrap()), &json!({}))
            .await;
        world
            .a()
            .get(&format!("/v1/mcp-servers/{}", made["id"].as_str().unwrap()))
            .await
            .expect(200);
    }
    let tools: Vec<Value> = servers
        .iter()
        .map(|(name, _)| json!({ "kind": "mcp", "server": name, "rules": { "effect": "pure", "timeout_ms": 2000 } }))
        .collect();
    for call in
        [Call::Answered, Call::HungUp, Call::GivenUp(-32_000, MCP_TOKEN), Call::Refused(MCP_TOKEN)]
    {
        world.mcp_calls(call);
        for tools in [&tools[..], &tools[..1]] {
            let model = calling(&["echo", "talkative"]);
            let agent = json!({ "name": "a", "model": model, "tools": tools });
            world.a().run(&agent, "go").await;
        }
    }
    let sent = world.mcp.seen("tools/call");
    assert!(sent.len() >= 4 && sent.iter().all(|(_, token)| token.contains(MCP_TOKEN)), "{sent:?}");
}

/// An endpoint that gives back its secret and the signature that it was sent.
pub(super) async fn webhooks(world: &mut World) {
    let secret = std::sync::Arc::clone(&world.hook_secret);
    world.tools.answer("hook", move |seen| {
        let told = secret.lock().unwrap().clone();
        (500, json!({ "headers": seen.headers, "secret": told }))
    });
    let a = world.a();
    let body = json!({ "url": world.tools.url("hook"), "metadata": { "note": CONTROL } });
    let made = a.post("/v1/webhooks", &body).await.expect(201);
    let path = format!("/v1/webhooks/{}", made["id"].as_str().unwrap());
    let mut secrets = vec![made["secret"].as_str().unwrap().to_owned()];
    world.hook_secret.lock().unwrap().clone_from(&secrets[0]);
    let agent = json!({ "name": "a", "model": { "provider": "scripted", "name": "m",
                        "script": [{ "text": CONTROL }] } });
    a.run(&agent, CONTROL).await;
    let failed = "SELECT count(*) > 0 FROM webhook_delivery WHERE n_attempts > 0";
    until(&world.cluster.db(), failed).await;
    let rotated = a.post(&format!("{path}/rotate"), &json!({})).await.expect(200);
    secrets.push(rotated["secret"].as_str().unwrap().to_owned());
    world.hook_secret.lock().unwrap().clone_from(&secrets[1]);
    let listed = a.get(&format!("{path}/deliveries")).await.expect(200);
    let delivery = listed["items"][0]["id"].as_str().unwrap().to_owned();
    a.post(&format!("{path}/deliveries/{delivery}/redeliver"), &json!({})).await;
    a.ask("PUT", &path, &body).await.expect(200);
    a.get(&path).await.expect(200);
    a.run(&agent, CONTROL).await;
    let bare = secrets.iter().map(|secret| secret.trim_start_matches("whsec_").to_owned());
    world.hook_secrets = bare.collect();
}

/// What another tenant asks, and how the first one looks for it.
pub(super) async fn tenants(world: &World) {
    let script = json!([{ "text": OTHERS_PROMPT }]);
    let model = json!({ "provider": "scripted", "name": "m", "script": script });
    let agent = json!({ "name": "theirs", "model": model, "instructions": OTHERS_PROMPT,
                        "metadata": { "note": CONTROL } });
    let (a, b) = (world.a(), world.b());
    let run = b.run(&agent, OTHERS_PROMPT).await;
    b.post("/v1/agents", &agent).await.expect(201);
    let (id, thread) = (run["id"].as_str().unwrap(), run["thread_id"].as_str().unwrap());
    for path in [
        format!("/v1/runs/{id}"),
        format!("/v1/runs/{id}/steps"),
        format!("/v1/runs/{id}/requests"),
        format!("/v1/runs/{id}/stream"),
        format!("/v1/threads/{thread}/memory"),
        "/v1/agents/theirs".to_owned(),
    ] {
        a.get(&path).await.expect(404);
    }
    let on = json!({ "agent_id": "theirs", "thread_id": thread, "input": "hi" });
    a.post("/v1/runs", &on).await;
    for body in [
        json!({ "agent": agent, "input": OTHERS_PROMPT, "x": 1 }),
        json!({ "input": [OTHERS_PROMPT] }),
    ] {
        b.post("/v1/runs", &body).await.expect(422);
    }
}

/// A database that refuses what it is given, is gone, and does not know the server any more.
pub(super) async fn database(world: &World) {
    let (a, b) = (world.a(), world.b());
    let tries = async || {
        let secret = json!({ "value": TOOL_HEADER, "origins": ["https://example.com"] });
        a.ask("PUT", "/v1/secrets/another", &secret).await;
        let model = json!({ "provider": "scripted", "name": "m", "script": [{ "text": "x" }] });
        let agent = json!({ "name": "b", "model": model });
        b.post("/v1/runs", &json!({ "agent": agent, "input": OTHERS_PROMPT })).await;
        b.post(
            "/v1/agents",
            &json!({ "name": OTHERS_PROMPT.to_lowercase(), "model": model,
                                      "instructions": OTHERS_PROMPT }),
        )
        .await;
        a.get("/v1/runs").await
    };
    for change in ["ADD CONSTRAINT no CHECK (false) NOT VALID", "DROP CONSTRAINT no"] {
        for table in ["secret", "step", "agent_version"] {
            world.cluster.admin(format!("ALTER TABLE {table} {change}")).await;
        }
        tries().await;
    }
    world.cluster.proxy.cut();
    tries().await;
    let password = |password: &str| format!("ALTER ROLE canary PASSWORD '{password}'");
    world.cluster.admin(password("another-password")).await;
    world.cluster.proxy.cut();
    let refused = tries().await;
    world.cluster.admin(password(DSN_PASSWORD)).await;
    assert_eq!(refused.status, Some(503), "{}", refused.text);
    let answers = async {
        while a.get("/readyz").await.status != Some(200) {}
        while a.get("/v1/runs").await.status != Some(200) {}
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), answers).await.expect("it comes back");
}

/// Settings that do not fit, and databases that do not let the server in.
pub(super) async fn settings(world: &World) {
    let dsn = world.dsn();
    let key = |text: &str| text.to_owned();
    let file = world.sayings.given(&format!("[{{\"name\": \"x\", \"env\": \"{VARIABLE}\""));
    let rules = world
        .sayings
        .given(&json!([{ "kind": "value", "name": "x", "value": [VARIABLE] }]).to_string());
    let wrong = [
        ("DATABASE_URL", dsn.replacen("postgres://", "mysql://", 1)),
        ("DATABASE_URL", dsn.replacen("agentling", "nowhere:x:y@[", 1)),
        ("DATABASE_URL", dsn.replacen('@', "@[", 1)),
        ("DATABASE_URL", dsn.replacen("canary:", "nobody:", 1)),
        ("DATABASE_URL", dsn.replacen("/agentling", "/nothing", 1)),
        ("DATABASE_URL", format!("postgres://canary:{DSN_PASSWORD}@127.0.0.1:1/agentling")),
        ("DATABASE_URL", format!("postgres://canary:{DSN_PASSWORD}@127.0.0.1:99999/agentling")),
        ("DATABASE_URL", format!("host=127.0.0.1 password={DSN_PASSWORD}")),
        ("DATABASE_URL", format!("{dsn}&sslmode={DSN_PASSWORD}")),
        ("AGENTLING_SECRET_KEYS", key(KEK)),
        ("AGENTLING_SECRET_KEYS", format!("one={KEK}AAAA")),
        ("AGENTLING_SECRET_KEYS", format!("one={KEK},one={KEK}")),
        ("AGENTLING_SECRET_KEYS_FILE", world.sayings.given(&format!("one={KEK}=="))),
        ("AGENTLING_API_KEY", format!("{JWT}\n")),
        ("OPENAI_API_KEY", format!("{JWT}\u{7f}\n")),
        ("AGENTLING_MCP_STDIO", file),
        ("AGENTLING_REDACTION_FILE", rules),
        ("AGENTLING_NO_SUCH_SETTING", key(VARIABLE)),
        ("AGENTLING_LISTEN", key(VARIABLE)),
        ("AGENTLING_CONCURRENCY", key(VARIABLE)),
    ];
    let said = wrong.iter().map(async |(name, value)| {
        let said = world.command(&["migrate"], &[(*name, value.as_str())]).await;
        assert!(!said.is_empty(), "{name}");
    });
    futures::future::join_all(said).await;
    world.command(&["keys", "list"], &[]).await;
    world.command(&["secrets", "rewrap"], &[]).await;
    world
        .command(
            &["secrets", "rewrap"],
            &[("AGENTLING_SECRET_KEYS", "two=AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=")],
        )
        .await;
}

/// Runs that outlast their server: one is told in doubt, one is given up.
pub(super) async fn restarts(world: &mut World) {
    world.tools.hold("held");
    let mut held = tool(world, "held", &world.tools.url("held"));
    held["timeout_ms"] = json!(60_000);
    held["effect"] = json!("at_most_once");
    let start = async |caller: &Caller| {
        let agent = json!({ "name": "a", "model": calling(&["held"]), "tools": [held] });
        let made = caller.post("/v1/runs", &json!({ "agent": agent, "input": "go" })).await;
        made.expect(201)["id"].as_str().unwrap().to_owned()
    };
    let seen = |world: &World| world.tools.seen().iter().filter(|seen| seen.tool == "held").count();
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
        let before = seen(world);
        let runs = [start(&world.a()).await, start(&world.a()).await];
        while seen(world) < before + 2 {
            tokio::task::yield_now().await;
        }
        world.server.take().expect("it runs").end(signal).await;
        let spent = "UPDATE run SET claims_since_progress = 9 WHERE id_is";
        let poisoned = runs[1].trim_start_matches("run_");
        let spent =
            spent.replace("id_is", &format!("replace(run_id::text, '-', '') = '{poisoned}'"));
        world.cluster.admin(spent).await;
        world.serve().await;
        for run in &runs {
            world.a().get(&format!("/v1/runs/{run}?wait=60")).await.expect(200);
            world.a().watch(run).await;
        }
    }
    world.tools.release("held");
}
