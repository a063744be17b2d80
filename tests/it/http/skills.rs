//! `/v1/skills`, and agents that name them.

use serde_json::{Value, json};

use super::{pointers, send_as, send_text, speaker};
use crate::support::{Answer, TestApp, mint_key, stored};

const FILE: &str = "---\nname: sail\ndescription: How to sail.\n---\n# Sail\n\nMind the boom.\n";

/// Sends a `SKILL.md`.
async fn send_file(app: &TestApp, (method, path): (&str, &str), text: &str) -> Answer {
    let request = app.request(method, path).header("content-type", "text/markdown; charset=utf-8");
    app.send(request.body(text.to_owned())).await
}

fn skill(name: &str) -> Value {
    json!({ "name": name, "description": format!("How to {name}."), "instructions": "Do." })
}

fn client_tool(name: &str) -> Value {
    json!({ "kind": "client", "name": name, "parameters": { "type": "object", "properties": {} } })
}

/// An agent that has these skills and these tools.
fn agent(skills: &Value, tools: &[Value]) -> Value {
    let mut agent = speaker("a", "Hi.");
    agent["skills"] = skills.clone();
    agent["tools"] = json!(tools);
    agent
}

#[tokio::test]
async fn a_skill_is_read_by_id_and_name_changed_and_archived() {
    let app = TestApp::start().await;
    let made = send_file(&app, ("POST", "/v1/skills"), FILE).await;
    assert_eq!((made.status, made.header("etag")), (201, "\"1\""), "{}", made.text);
    let location = made.header("location").to_owned();
    let skill = made.json();
    assert_eq!(location, format!("/v1/skills/{}", skill["id"].as_str().unwrap()));
    assert_eq!(
        (&skill["name"], &skill["description"], &skill["instructions"], &skill["version"]),
        (&json!("sail"), &json!("How to sail."), &json!("# Sail\n\nMind the boom."), &json!(1))
    );
    assert_eq!(app.get(&location).await.expect(200), skill);
    assert_eq!(app.get("/v1/skills/sail").await.expect(200), skill);

    let mut next = skill.clone();
    for ours in ["id", "version", "created_at", "updated_at"] {
        next.as_object_mut().unwrap().remove(ours);
    }
    next["name"] = json!("sail-2");
    next["tools"] = json!([client_tool("reef")]);
    next["metadata"] = json!({ "team": "deck" });
    let changed = app.put("/v1/skills/sail", &next).await;
    assert_eq!(changed.header("etag"), "\"2\"");
    let changed = changed.expect(200);
    assert_eq!((&changed["id"], &changed["version"]), (&skill["id"], &json!(2)));
    app.get("/v1/skills/sail").await.expect_problem(404, "not-found");
    assert_eq!(app.get("/v1/skills/sail-2").await.expect(200), changed);
    assert_eq!(app.all("/v1/skills/sail-2/versions").await, [changed.clone(), skill.clone()]);
    assert_eq!(app.get("/v1/skills/sail-2/versions/1").await.expect(200), skill);
    for none in ["0", "3", "-1", "x", "1.0"] {
        let path = format!("/v1/skills/sail-2/versions/{none}");
        app.get(&path).await.expect_problem(404, "not-found");
    }
    for (team, expected) in [("deck", json!([changed])), ("galley", json!([]))] {
        let path = format!("/v1/skills?metadata.team={team}");
        assert_eq!(app.get(&path).await.expect(200)["items"], expected);
    }

    assert_eq!(app.delete("/v1/skills/sail-2").await.status, 204);
    assert_eq!(app.delete(&location).await.status, 204);
    app.get("/v1/skills/sail-2").await.expect_problem(404, "not-found");
    assert!(app.get(&location).await.expect(200)["archived_at"].is_string());
    app.put(&location, &next).await.expect_problem(410, "gone");
    assert_eq!(app.all("/v1/skills").await, Vec::<Value>::new());
    app.post("/v1/skills", &next).await.expect(201);
}

#[tokio::test]
async fn a_skill_name_is_taken_once_and_a_stale_change_is_refused() {
    let app = TestApp::start().await;
    for name in ["row", "sail"] {
        app.post("/v1/skills", &skill(name)).await.expect(201);
    }
    app.post("/v1/skills", &skill("row")).await.expect_problem(409, "id-conflict");
    app.put("/v1/skills/row", &skill("sail")).await.expect_problem(409, "id-conflict");
    let body = skill("row").to_string();
    let put = ("PUT", "/v1/skills/row");
    send_text(&app, put, "\"2\"", &body).await.expect_problem(412, "precondition-failed");
    let tries = (0..6).map(|_| send_text(&app, put, "\"1\"", &body));
    let mut statuses: Vec<u16> =
        futures::future::join_all(tries).await.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412, 412, 412, 412, 412]);
    let delete = ("DELETE", "/v1/skills/row");
    send_text(&app, delete, "\"1\"", "").await.expect_problem(412, "precondition-failed");
    assert_eq!(send_text(&app, delete, "\"2\"", "").await.status, 204);
}

#[tokio::test]
async fn a_file_without_front_matter_is_called_what_the_query_says() {
    let app = TestApp::start().await;
    let problem = send_file(&app, ("POST", "/v1/skills"), "Just do it.").await;
    let problem = problem.expect_problem(422, "skill-load-error");
    assert_eq!(pointers(&problem), ["/name"]);
    let path = "/v1/skills?name=do-it&description=How%20to%20do%20it.";
    let made = send_file(&app, ("POST", path), "Just do it.").await.expect(201);
    assert_eq!((&made["name"], &made["instructions"]), (&json!("do-it"), &json!("Just do it.")));
}

#[tokio::test]
async fn a_file_that_does_not_load_is_told_where_and_leaves_nothing() {
    let app = TestApp::start().await;
    let before = stored(&app.db).await;
    for (text, at) in [
        ("---\nname: a\n", ""),
        ("---\n- a\n---\nDo.", ""),
        ("---\nname: a\nname: b\n---\nDo.", ""),
        ("---\nname: a\ndescription: b\nallowed-tools: Bash\n---\nDo.", "/allowed-tools"),
        ("---\nname: a\ndescription: b\ntools: [{kind: shell}]\n---\nDo.", "/tools/0/kind"),
        ("---\nname: a\n---\nDo.", "/description"),
    ] {
        let answer = send_file(&app, ("POST", "/v1/skills"), text).await;
        let problem = answer.expect_problem(422, "skill-load-error");
        assert_eq!(pointers(&problem), [at], "{text:?}: {problem}");
    }
    let nul = send_file(&app, ("POST", "/v1/skills"), "---\nname: a\n---\n\0").await;
    nul.expect_problem(422, "text-not-storable");
    let dashes = "-".repeat(1 << 20);
    let answer = send_file(&app, ("POST", "/v1/skills"), &dashes).await;
    assert_eq!(answer.expect_problem(413, "body-too-large")["limit"], 256 * 1024);
    assert_eq!(stored(&app.db).await, before);
}

#[tokio::test]
async fn a_skill_keeps_its_bounds_however_it_is_sent() {
    let app = TestApp::start().await;
    let full = "x".repeat(256 * 1024);
    let with = |member: &str, value: Value| {
        let mut skill = skill("a");
        skill[member] = value;
        skill
    };
    for (member, value) in [
        ("name", json!("A")),
        ("name", json!("a_b")),
        ("description", json!("x".repeat(1_025))),
        ("description", json!(" \n")),
        ("instructions", json!("\n")),
        ("instructions", json!(format!("{full}x"))),
    ] {
        let answer = app.post("/v1/skills", &with(member, value)).await;
        let problem = answer.expect_problem(422, "validation-failed");
        assert_eq!(pointers(&problem)[0], format!("/{member}"), "{problem}");
    }
    let file = "---\nname: A\ndescription: b\n---\nDo.";
    let problem = send_file(&app, ("POST", "/v1/skills"), file).await;
    assert_eq!(pointers(&problem.expect_problem(422, "validation-failed")), ["/name"]);
    app.post("/v1/skills", &with("files", json!([]))).await.expect_problem(422, "unknown-field");
    app.post("/v1/skills", &with("instructions", json!(full))).await.expect(201);
    let other = app.request("POST", "/v1/skills").header("content-type", "text/plain");
    app.send(other.body(FILE)).await.expect_problem(415, "unsupported-media-type");
}

#[tokio::test]
async fn the_tools_of_a_skill_are_judged_like_those_of_an_agent() {
    let app = TestApp::start().await;
    let tools = |tools: Value| {
        let mut skill = skill("a");
        skill["tools"] = tools;
        skill
    };
    let http = |url: &str| json!({ "kind": "http", "name": "t", "url": url, "parameters": { "type": "object" } });
    let reserved = client_tool("load_skill");
    let mut keyed = http("https://example.com/");
    keyed["headers"] = json!({ "Authorization": { "secret": "missing" } });
    for (body, slug) in [
        (tools(json!([client_tool("t"), client_tool("t")])), "tool-name-conflict"),
        (tools(json!([http("https://169.254.169.254/")])), "egress-denied"),
        (tools(json!([reserved])), "validation-failed"),
        (tools(json!([{ "kind": "builtin", "name": "final_answer" }])), "validation-failed"),
        (tools(json!([{ "kind": "mcp", "server": "s" }])), "validation-failed"),
        (tools(json!([{ "kind": "agent", "name": "b", "agent": "b" }])), "validation-failed"),
        (tools(json!([keyed])), "validation-failed"),
    ] {
        let status = if slug == "tool-name-conflict" { 409 } else { 422 };
        app.post("/v1/skills", &body).await.expect_problem(status, slug);
    }
    let file = "---\nname: a\ndescription: b\ntools:\n- kind: client\n  name: t\n  parameters: {type: string}\n---\nDo.";
    let answer = send_file(&app, ("POST", "/v1/skills"), file).await;
    let problem = answer.expect_problem(422, "invalid-tool-schema");
    assert_eq!(pointers(&problem), ["/tools/0/parameters"]);
}

#[tokio::test]
async fn an_agent_names_skills_that_are_there_and_whose_tools_differ() {
    let app = TestApp::start().await;
    let mut sail = skill("sail");
    sail["tools"] = json!([client_tool("reef")]);
    let sail = app.post("/v1/skills", &sail).await.expect(201);
    app.post("/v1/skills", &skill("row")).await.expect(201);
    let mut dive = skill("dive");
    dive["tools"] = json!([client_tool("reef")]);
    app.post("/v1/skills", &dive).await.expect(201);

    let refused = async |skills: Value, tools: &[Value]| {
        let agent = agent(&skills, tools);
        let answer = app.post("/v1/agents", &agent).await;
        let run = app.post("/v1/runs", &json!({ "agent": agent, "input": "hi" })).await;
        assert_eq!((run.status, run.slug()), (answer.status, answer.slug()), "{skills}");
        let problem = answer.json();
        let at = pointers(&problem).first().map(|&at| at.to_owned());
        let of_run = run.json();
        let inside = pointers(&of_run).first().map(|&at| at.to_owned());
        assert_eq!(inside, at.as_ref().map(|at| format!("/agent{at}")), "{skills}");
        (answer.slug(), at)
    };
    let invalid = |at: &str| ("validation-failed".to_owned(), Some(at.to_owned()));
    assert_eq!(refused(json!(["sail", "fly"]), &[]).await, invalid("/skills/1"));
    assert_eq!(refused(json!([{ "name": "sail", "version": 2 }]), &[]).await, invalid("/skills/0"));
    assert_eq!(refused(json!(["sail", sail["id"]]), &[]).await, invalid("/skills/1"));
    let conflict = ("tool-name-conflict".to_owned(), None);
    assert_eq!(refused(json!(["sail"]), &[client_tool("reef")]).await, conflict);
    assert_eq!(refused(json!(["sail", "dive"]), &[]).await, conflict);
    let crowd: Vec<Value> = (0..128).map(|n| client_tool(&format!("t{n}"))).collect();
    assert_eq!(refused(json!(["sail"]), &crowd).await, invalid("/skills"));

    let skills = json!(["row", { "name": "sail", "version": 1 }]);
    let made = app.post("/v1/agents", &agent(&skills, &[])).await.expect(201);
    assert_eq!(made["skills"], skills);
    app.put("/v1/agents/a", &agent(&json!([sail["id"]]), &[])).await.expect(200);
}

#[tokio::test]
async fn an_archived_skill_is_named_by_no_new_agent_and_kept_by_those_that_have_it() {
    let app = TestApp::start().await;
    app.post("/v1/skills", &skill("sail")).await.expect(201);
    app.post("/v1/agents", &agent(&json!(["sail"]), &[])).await.expect(201);
    assert_eq!(app.delete("/v1/skills/sail").await.status, 204);
    let again = app.put("/v1/agents/a", &agent(&json!(["sail"]), &[])).await;
    assert_eq!(pointers(&again.expect_problem(422, "validation-failed")), ["/skills/0"]);
    let told = app.post("/v1/render", &json!({ "agent_id": "a", "input": "hi" })).await.expect(200);
    assert!(told["body"].as_str().unwrap().contains("How to sail."), "{told}");
    let run = app.run_body(&json!({ "agent_id": "a", "input": "hi" })).await;
    assert_eq!(run["status"], "completed");
}

#[tokio::test]
async fn the_skills_of_a_tenant_are_its_own() {
    let app = TestApp::start().await;
    let mine = mint_key(&app, "default", &["tools:write", "agents:read"]).await;
    let theirs = mint_key(&app, "other", &["admin"]).await;
    let reader = mint_key(&app, "default", &["agents:read", "agents:write"]).await;
    let body = skill("sail").to_string();
    let made = send_as(&app, &mine, ("POST", "/v1/skills"), &body).await.expect(201);
    let refused = send_as(&app, &reader, ("POST", "/v1/skills"), &body).await;
    assert_eq!(refused.expect_problem(403, "insufficient-scope")["required"], "tools:write");
    let path = format!("/v1/skills/{}", made["id"].as_str().unwrap());
    for path in [&path, "/v1/skills/sail", &format!("{path}/versions/1")] {
        send_as(&app, &reader, ("GET", path), "").await.expect(200);
        send_as(&app, &theirs, ("GET", path), "").await.expect_problem(404, "not-found");
    }
    let agent = agent(&json!([made["id"]]), &[]).to_string();
    let foreign = send_as(&app, &theirs, ("POST", "/v1/agents"), &agent).await;
    assert_eq!(pointers(&foreign.expect_problem(422, "validation-failed")), ["/skills/0"]);
    send_as(&app, &theirs, ("POST", "/v1/skills"), &body).await.expect(201);
}
