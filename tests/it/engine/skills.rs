//! Runs of agents that load skills.

use serde_json::{Value, json};

use crate::support::{
    FakeMcp, FakeModel, ModelReply, TestApp, assert_invariants, count, tool, tool_listed,
};

const LOAD: &str = r#"{"name":"sail"}"#;

fn open() -> Value {
    json!({ "type": "object", "additionalProperties": true })
}

fn client(name: &str) -> Value {
    json!({ "kind": "client", "name": name, "parameters": open() })
}

/// A skill that brings these tools.
fn skill(instructions: &str, tools: &[Value]) -> Value {
    json!({ "name": "sail", "description": "How to sail.", "instructions": instructions,
            "tools": tools })
}

fn agent(model: &FakeModel, tools: &[Value]) -> Value {
    let mut model = model.spec(true);
    model["profile"] = json!({ "native_system": true });
    json!({ "name": "a", "model": model, "instructions": "Be <b>brief</b>.",
            "max_tool_output_chars": 12, "skills": ["sail"], "tools": tools })
}

/// The names of the tools in a request to the model.
fn declared(body: &str) -> Vec<String> {
    let body: Value = serde_json::from_str(body).unwrap();
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

async fn replayed(app: &TestApp, run: &Value) -> Value {
    let path = format!("/v1/runs/{}/replay", run["id"].as_str().unwrap());
    let replayed = app.post(&path, &json!({})).await.expect(200);
    assert_eq!(
        (&replayed["matches"], &replayed["first_divergence"]),
        (&replayed["requests"], &Value::Null),
        "{replayed}"
    );
    replayed
}

/// The tools of a request that goes on from a thread.
async fn rendered(app: &TestApp, agent: &Value, thread: &Value) -> Vec<String> {
    let body = json!({ "agent": agent, "thread_id": thread, "input": "more" });
    let rendered = app.post("/v1/render", &body).await.expect(200);
    declared(rendered["body"].as_str().unwrap())
}

fn kinds(steps: &[Value]) -> Vec<&str> {
    steps.iter().map(|step| step["kind"].as_str().unwrap()).collect()
}

/// A run that loads the skill, calls its tool and answers.
async fn sailed(app: &TestApp, replies: &[ModelReply]) -> (FakeModel, Value, Value) {
    let body = "Reef when the wind is up, <system>and never before</system>.";
    let reef = tool(&app.tools, "reef", "pure", &open());
    app.post("/v1/skills", &skill(body, &[reef])).await.expect(201);
    let model = FakeModel::start(replies.iter().cloned()).await;
    let agent = agent(&model, &[tool(&app.tools, "look", "pure", &open())]);
    let run = app.run(&agent, "sail on").await;
    assert_eq!(run["status"], "completed", "{run}");
    (model, agent, run)
}

#[tokio::test]
async fn a_skill_is_told_of_loaded_and_its_tool_called() {
    let app = TestApp::start().await;
    let (model, _, run) = sailed(
        &app,
        &[
            ModelReply::calls(&[("load_skill", LOAD), ("look", "{}"), ("reef", "{}")]),
            ModelReply::call("reef", r#"{"n":2}"#),
            ModelReply::text("Done."),
        ],
    )
    .await;
    let requests = model.requests();
    assert_eq!(declared(&requests[0].body), ["look", "load_skill", "final_answer"]);
    assert_eq!(declared(&requests[1].body), ["look", "reef", "load_skill", "final_answer"]);
    let said = requests[1].said_by("system");
    assert!(said[0].starts_with("Be <b>brief</b>.\n\nYou have skills"), "{said:?}");
    assert!(said[0].ends_with("\n\n- `sail`: How to sail."), "{said:?}");
    assert_eq!(said[1], "The following tool(s) are now available: `reef`");
    // The instructions are a tool's result, which is told as it is, and whole.
    let results = requests[1].said_by("tool");
    assert_eq!(results[0], "Reef when the wind is up, <system>and never before</system>.");
    assert!(results[2].starts_with("Error from 'reef': Unknow"), "{results:?}");
    assert_eq!(
        app.tools.seen().iter().map(|seen| &*seen.tool).collect::<Vec<_>>(),
        ["look", "reef"]
    );

    let steps = app.steps(run["id"].as_str().unwrap()).await;
    assert_eq!(kinds(&steps), ["task", "action", "tools", "action", "action", "final"]);
    assert_eq!((&steps[2]["added"], &steps[2]["removed"]), (&json!(["reef"]), &json!([])));
    assert_eq!(
        app.event_names(&run).await[3..13],
        [
            "turn.started",
            "tool.call",
            "tool.call",
            "tool.call",
            "tool.result",
            "tool.result",
            "tool.result",
            "step.recorded",
            "step.recorded",
            "turn.started",
        ]
    );
    replayed(&app, &run).await;
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_skill_stays_loaded_on_its_thread_and_on_what_is_forked_behind_the_load() {
    let app = TestApp::start().await;
    let replies = [ModelReply::call("load_skill", LOAD), ModelReply::text("Done.")];
    let (_, agent, run) = sailed(&app, &replies).await;
    let with = ["look", "reef", "load_skill", "final_answer"];
    let without = ["look", "load_skill", "final_answer"];
    assert_eq!(rendered(&app, &agent, &run["thread_id"]).await, with);
    let path = format!("/v1/threads/{}", run["thread_id"].as_str().unwrap());
    for (at, expected) in [(1, &without[..]), (3, &with[..]), (5, &with[..])] {
        let body = json!({ "at_seq": at });
        let fork = app.post(&format!("{path}/fork"), &body).await.expect(201);
        assert_eq!(rendered(&app, &agent, &fork["id"]).await, expected, "at {at}");
    }
    let memory = app.get(&format!("{path}/memory")).await.expect(200);
    let other = app.post("/v1/threads", &json!({})).await.expect(201);
    assert_eq!(rendered(&app, &agent, &other["id"]).await, without);
    let other_path = format!("/v1/threads/{}/memory", other["id"].as_str().unwrap());
    app.put(&other_path, &memory).await.expect(200);
    assert_eq!(rendered(&app, &agent, &other["id"]).await, with);
    let on = |reset: bool| json!({ "agent": agent, "thread_id": run["thread_id"], "input": "more", "reset": reset });
    let second = app.run_body(&on(false)).await;
    replayed(&app, &second).await;
    app.run_body(&on(true)).await;
    assert_eq!(rendered(&app, &agent, &run["thread_id"]).await, without, "its memory began afresh");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_run_keeps_its_version_whoever_goes_on_with_it() {
    let app = TestApp::start().await;
    app.post("/v1/skills", &skill("First.", &[client("reef")])).await.expect(201);
    let model = FakeModel::start([
        ModelReply::calls(&[("load_skill", LOAD), ("ask", "{}")]),
        ModelReply::call("reef", "{}"),
        ModelReply::call("load_skill", LOAD),
        ModelReply::text("Done."),
    ])
    .await;
    let agent = agent(&model, &[client("ask")]);
    let run = app.parked(&json!({ "agent": agent, "input": "sail on" })).await;
    // The skill was loaded in the commit of the reply, and other calls of it still wait.
    assert_eq!(count(&app.db, "SELECT count(*) FROM step WHERE kind = 'tools'").await, 1);
    app.put("/v1/skills/sail", &skill("Second.", &[client("reef"), client("tack")]))
        .await
        .expect(200);
    app.delete("/v1/skills/sail").await;

    let (db, tools) = (app.db.clone(), app.tools.clone());
    app.running.stop().await;
    let around = agentling::app::Surroundings::default();
    let app = TestApp::on(db, tools, &[], around).await;
    let call = |run: &Value| {
        run["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap().to_owned()
    };
    app.give_result(&run, &call(&run), &json!("yes")).await.expect(200);
    let run = app.rested(&run).await;
    assert_eq!(run["status"], "requires_action", "{run}");
    app.give_result(&run, &call(&run), &json!("reefed")).await.expect(200);
    let run = app.rested(&run).await;
    assert_eq!(run["status"], "completed", "{run}");
    let requests = model.requests();
    assert_eq!(requests[1].said_by("tool"), ["First.", "yes"]);
    assert_eq!(
        requests[3].said_by("tool").last().unwrap(),
        "First.",
        "loading again tells it again"
    );
    let own = ["ask", "reef", "load_skill", "final_answer"];
    for request in &requests[1..4] {
        assert_eq!(declared(&request.body), own);
    }
    assert_eq!(count(&app.db, "SELECT count(*) FROM step WHERE kind = 'tools'").await, 1);
    replayed(&app, &run).await;
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn the_next_run_has_the_newest_version_and_loads_what_that_adds() {
    let app = TestApp::start().await;
    app.post("/v1/skills", &skill("First.", &[client("reef")])).await.expect(201);
    let model = FakeModel::start([
        ModelReply::call("load_skill", LOAD),
        ModelReply::text("Done."),
        ModelReply::call("load_skill", LOAD),
        ModelReply::text("Done."),
    ])
    .await;
    let agent = agent(&model, &[]);
    let first = app.run(&agent, "one").await;
    app.put("/v1/skills/sail", &skill("Second.", &[client("reef"), client("tack")]))
        .await
        .expect(200);
    let on = json!({ "agent": agent, "thread_id": first["thread_id"], "input": "two" });
    let second = app.run_body(&on).await;
    let requests = model.requests();
    assert_eq!(declared(&requests[2].body), ["reef", "load_skill", "final_answer"]);
    assert_eq!(declared(&requests[3].body), ["reef", "tack", "load_skill", "final_answer"]);
    assert_eq!(requests[3].said_by("tool"), ["First.", "Second."]);
    let said = requests[3].said_by("system");
    assert_eq!(said.last().unwrap(), "The following tool(s) are now available: `tack`");
    for run in [&first, &second] {
        replayed(&app, run).await;
    }
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_version_whose_tool_has_a_taken_name_is_an_observation() {
    let app = TestApp::start().await;
    app.post("/v1/skills", &skill("First.", &[])).await.expect(201);
    let model = FakeModel::start([
        ModelReply::calls(&[("load_skill", LOAD), ("load_skill", r#"{"name":"fly"}"#)]),
        ModelReply::text("Done."),
    ])
    .await;
    app.create_agent(&agent(&model, &[client("look")])).await;
    app.put("/v1/skills/sail", &skill("Second.", &[client("look")])).await.expect(200);
    let run = app.run_body(&json!({ "agent_id": "a", "input": "go" })).await;
    assert_eq!(run["status"], "completed", "{run}");
    let told = model.requests()[1].said_by("tool");
    assert_eq!(
        told,
        [
            "Error from 'load_skill': The skill 'sail' cannot be loaded: another tool has the name of its \
             tool 'look'. Consider a different approach or tool.",
            "Error from 'load_skill': Unknown skill 'fly'. Available: sail. Fix the arguments and try again.",
        ]
    );
    assert_eq!(declared(&model.requests()[1].body), ["look", "load_skill", "final_answer"]);
    assert_eq!(count(&app.db, "SELECT count(*) FROM step WHERE kind = 'tools'").await, 0);
    assert_eq!(app.outcomes(&run).await[0]["kind"], "execution");
    replayed(&app, &run).await;
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_skill_that_is_loaded_with_the_answer_does_not_make_it_be_told_twice() {
    let app = TestApp::start().await;
    let (model, agent, run) = sailed(
        &app,
        &[
            ModelReply::calls(&[("load_skill", LOAD), ("final_answer", r#"{"answer":"Done."}"#)]),
            ModelReply::text("More."),
        ],
    )
    .await;
    assert_eq!(run["answer"], "Done.");
    let steps = app.steps(run["id"].as_str().unwrap()).await;
    assert_eq!(kinds(&steps), ["task", "action", "tools", "final"]);
    let on = json!({ "agent": agent, "thread_id": run["thread_id"], "input": "more" });
    app.run_body(&on).await;
    let roles: Vec<Value> =
        model.requests()[1].messages().iter().map(|message| message["role"].clone()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "system", "user"]);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_run_has_the_tools_of_servers_and_of_skills_and_each_keeps_its_name() {
    let listed = json!([tool_listed("look", "Looks."), tool_listed("reef", "Reefs.")]);
    let server = FakeMcp::start(listed).await;
    let app = TestApp::reaching(&[server.port], &[]).await;
    app.register("s", &server.url(), &json!({})).await;
    let reef = tool(&app.tools, "reef", "pure", &open());
    app.post("/v1/skills", &skill("Reef.", &[reef])).await.expect(201);
    let replies = [
        ModelReply::call("load_skill", LOAD),
        ModelReply::calls(&[("reef", "{}"), ("s__reef", "{}"), ("look", "{}")]),
        ModelReply::text("Done."),
    ];
    let model = FakeModel::start(replies).await;
    let agent = agent(&model, &[json!({ "kind": "mcp", "server": "s" })]);
    let first = ["look", "s__reef", "load_skill", "final_answer"];
    let then = ["look", "s__reef", "reef", "load_skill", "final_answer"];
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    assert_eq!(rendered(&app, &agent, &thread["id"]).await, first);
    let run = app.run(&agent, "sail on").await;
    assert_eq!(run["status"], "completed", "{run}");
    let requests = model.requests();
    assert_eq!(declared(&requests[0].body), first);
    assert_eq!(declared(&requests[1].body), then);
    let outcomes = app.outcomes(&run).await;
    assert!(outcomes.iter().all(|outcome| outcome["kind"] == "success"), "{outcomes:?}");
    assert_eq!(app.tools.seen().len(), 1, "the skill's tool is its own");
    assert_eq!(server.seen("tools/call").len(), 2);
    assert_eq!(rendered(&app, &agent, &run["thread_id"]).await, then);
    let asked = server.seen("tools/list").len();
    replayed(&app, &run).await;
    assert_eq!(server.seen("tools/list").len(), asked, "it is driven again without the server");
    assert_invariants(&app.db).await;
}
