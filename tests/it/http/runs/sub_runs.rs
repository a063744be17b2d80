//! Agents as tools: a call is a run of its own.

use std::sync::Arc;
use std::time::Duration;

use agentling::app::Surroundings;
use agentling::domain::id::TenantId;
use agentling::store::retention;
use serde_json::{Value, json};

use crate::support::{
    Commits, FakeTools, TestApp, TestDb, agent_with, assert_invariants, client_tool, count,
    mint_key, run_path, saying, tool, until, with_json,
};

/// A stored agent that follows a script.
async fn helper(app: &TestApp, name: &str, script: &[Value], tools: &[Value]) -> Value {
    let mut agent = agent_with(script, tools);
    agent["name"] = json!(name);
    app.create_agent(&agent).await
}

/// A tool that is an agent.
fn agent_tool(name: &str, agent: &str) -> Value {
    json!({"kind": "agent", "name": name, "description": "asks it", "agent": agent})
}

/// A turn that gives so many tasks to tools.
fn asking(tools: &[&str]) -> Value {
    let calls: Vec<Value> = (1..)
        .zip(tools)
        .map(|(n, tool)| json!({"name": tool, "arguments": {"task": format!("Task {n}.")}}))
        .collect();
    json!({"tool_calls": calls})
}

/// A run of an agent that asks another one once and then is done.
fn asker(tool: &Value) -> Value {
    let name = tool["name"].as_str().unwrap();
    json!({"agent": agent_with(&[asking(&[name]), saying("Done.")], std::slice::from_ref(tool)),
           "input": "Go."})
}

/// The sub-runs of a run, oldest first.
async fn sub_runs(app: &TestApp, run: &Value) -> Vec<Value> {
    let path = format!("/v1/runs?parent_run_id={}", run["id"].as_str().unwrap());
    let page = app.get(&path).await.expect(200);
    page["items"].as_array().unwrap().iter().rev().cloned().collect()
}

/// Starts a run and answers it with its sub-runs once they have all come so far.
async fn with_sub_runs(app: &TestApp, body: &Value, status: &str, n: usize) -> (Value, Vec<Value>) {
    let run = app.start_run(body).await;
    let found = async {
        loop {
            let found = sub_runs(app, &run).await;
            if found.len() == n && found.iter().all(|sub_run| sub_run["status"] == status) {
                return found;
            }
        }
    };
    let found = tokio::time::timeout(Duration::from_mins(1), found).await;
    (run, found.expect("the sub-runs come so far"))
}

/// Waits until nothing is under way any more.
async fn at_rest(app: &TestApp) {
    let all = "SELECT bool_and(status NOT IN ('queued', 'running', 'requires_action')) FROM run";
    until(&app.db, all).await;
}

#[tokio::test]
async fn a_call_of_an_agent_is_a_run_of_its_own_and_its_answer_is_the_output() {
    let app = TestApp::start().await;
    let agent = helper(&app, "echo", &[json!({"echo": true})], &[]).await;
    let run = app.run_body(&asker(&agent_tool("ask", "echo"))).await;
    assert_eq!((&run["status"], &run["answer"]), (&json!("completed"), &json!("Done.")));
    let outcomes = app.outcomes(&run).await;
    assert_eq!(outcomes[0]["output"]["text"], "Task 1.");
    assert_eq!((&outcomes[0]["kind"], &outcomes[0]["attempts"]), (&json!("success"), &json!(1)));
    let [sub_run] = sub_runs(&app, &run).await.try_into().unwrap();
    let call = outcomes[0]["tool_call_id"].as_str().unwrap();
    assert_eq!(sub_run["id"].as_str().unwrap().replace("run_", "call_"), call);
    assert_eq!(sub_run["parent_run_id"], run["id"]);
    assert_eq!(sub_run["parent_tool_call_id"], call);
    assert_eq!((&sub_run["agent_id"], &sub_run["agent_version"]), (&agent["id"], &json!(1)));
    assert_ne!(sub_run["thread_id"], run["thread_id"]);
    assert_eq!(run["parent_run_id"], Value::Null);
    let names = app.event_names(&run).await;
    assert!(!names.iter().any(|name| name == "run.requires_action" || name == "run.resumed"));
    assert_eq!(app.event_names(&sub_run).await.last().unwrap(), "run.completed");
    let replay = app.post(&run_path(&run, "replay"), &json!({})).await.expect(200);
    assert_eq!(replay["first_divergence"], Value::Null, "{replay}");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_call_of_an_agent_costs_a_run_no_commit_more_than_one_of_a_caller() {
    let commits = Arc::new(Commits::default());
    let around =
        Surroundings { observer: Arc::<Commits>::clone(&commits), ..Surroundings::default() };
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let app = TestApp::on(db, tools, &[("AGENTLING_LEASE_MS", "60000")], around).await;
    helper(&app, "echo", &[json!({"echo": true})], &[]).await;
    let run = app.run_body(&asker(&agent_tool("ask", "echo"))).await;
    // The reply with the run that it starts, its outcome with the next turn, and the answer.
    assert_eq!(commits.of(run["id"].as_str().unwrap().parse().unwrap()), 3);
    let [sub_run] = sub_runs(&app, &run).await.try_into().unwrap();
    assert_eq!(commits.of(sub_run["id"].as_str().unwrap().parse().unwrap()), 1);
}

#[tokio::test]
async fn a_thread_with_calls_of_agents_is_forked_and_its_runs_are_compared_as_any_other() {
    let app = TestApp::start().await;
    helper(&app, "echo", &[json!({"echo": true})], &[]).await;
    let body = asker(&agent_tool("ask", "echo"));
    let (one, two) = (app.run_body(&body).await, app.run_body(&body).await);
    let diff = run_path(&one, &format!("diff/{}", two["id"].as_str().unwrap()));
    app.get(&diff).await.expect(200);
    let path = format!("/v1/threads/{}/fork", one["thread_id"].as_str().unwrap());
    let fork = app.post(&path, &json!({"at_seq": 4})).await.expect(201);
    let mut next = body.clone();
    next["thread_id"] = fork["id"].clone();
    let forked = app.run_body(&next).await;
    assert_eq!(forked["answer"], "Done.");
    assert_eq!(sub_runs(&app, &forked).await.len(), 1);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_run_that_waits_for_an_agent_is_queued_holds_nothing_and_says_what_it_waits_for() {
    let app = TestApp::start().await;
    let script =
        [json!({"tool_calls": [{"name": "pick", "arguments": {"n": 1}}]}), saying("Picked.")];
    helper(&app, "picker", &script, &[client_tool("pick")]).await;
    let body = asker(&agent_tool("ask", "picker"));
    let mut stream = app.start_stream(&body).await;
    stream.until("tool.call").await;
    until(&app.db, "SELECT count(*) = 1 FROM run WHERE status = 'requires_action'").await;
    until(&app.db, "SELECT count(*) = 0 FROM run_lease").await;
    assert_invariants(&app.db).await;
    let page = app.get("/v1/runs?status=queued").await.expect(200);
    let run = page["items"][0].clone();
    let [sub_run] = sub_runs(&app, &run).await.try_into().unwrap();
    let waits = json!([{"tool_call_id": sub_run["parent_tool_call_id"], "name": "ask",
                        "run_id": sub_run["id"]}]);
    assert_eq!(run["sub_runs"], waits);
    assert_eq!(run["requires_action"], Value::Null);
    let call = sub_run["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap();
    // Nobody can answer for the agent.
    let own = sub_run["parent_tool_call_id"].as_str().unwrap();
    app.give_result(&run, own, &json!(1)).await.expect_problem(409, "run-not-waiting");
    app.give_result(&sub_run, call, &json!("a.txt")).await.expect(200);
    let names: Vec<_> = stream.rest().await.into_iter().map(|event| event.name).collect();
    assert_eq!(names.last().unwrap(), "run.completed");
    assert_eq!(app.outcomes(&run).await[0]["output"]["text"], "Picked.");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn an_agent_with_an_output_schema_gives_back_json_and_takes_parameters_of_its_own() {
    let app = TestApp::start().await;
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let answer = json!({"tool_calls": [{"name": "final_answer", "arguments": {"n": 4}}]});
    let mut agent = agent_with(&[answer], &[]);
    (agent["name"], agent["output_schema"]) = (json!("counter"), schema);
    app.create_agent(&agent).await;
    let mut tool = agent_tool("ask", "counter");
    tool["parameters"] = json!({"type": "object", "properties": {"word": {"type": "string"}}});
    let call = json!({"tool_calls": [{"name": "ask", "arguments": {"word": "four"}}]});
    let wrong = json!({"tool_calls": [{"name": "ask", "arguments": {"task": "four"}}]});
    let agent = agent_with(&[wrong, call, saying("Done.")], &[tool]);
    let run = app.run(&agent, "Go.").await;
    let outcomes = app.outcomes(&run).await;
    assert_eq!(outcomes[0]["kind"], "invalid_arguments");
    assert_eq!(outcomes[1]["output"]["json"], json!({"n": 4}));
    let [sub_run] = sub_runs(&app, &run).await.try_into().unwrap();
    let sub_run = app.ended(sub_run["id"].as_str().unwrap()).await;
    assert_eq!(sub_run["input"][0]["text"], r#"{"word":"four"}"#);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn an_agent_that_fails_is_told_to_the_model_and_fails_nothing_else() {
    let app = TestApp::start().await;
    helper(&app, "broken", &[json!({"error": {"kind": "bad_request"}})], &[]).await;
    for redacts in [false, true] {
        let mut body = asker(&agent_tool("ask", "broken"));
        body["agent"]["redact_errors"] = json!(redacts);
        let run = app.run_body(&body).await;
        assert_eq!(run["answer"], "Done.");
        let [sub_run] = sub_runs(&app, &run).await.try_into().unwrap();
        assert_eq!(sub_run["status"], "failed");
        let outcome = &app.outcomes(&run).await[0];
        assert_eq!(
            (&outcome["kind"], &outcome["error"]["type"]),
            (&json!("execution"), &json!("SubRunFailed"))
        );
        let detail = sub_run["error"]["detail"].as_str().unwrap();
        let told = outcome["error"]["message"].as_str().unwrap();
        assert_eq!(told.contains(detail), !redacts, "{told}");
        assert_eq!(outcome["error"]["redacted"] == json!(true), redacts);
    }
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_sub_run_that_a_caller_ends_is_an_outcome_and_one_that_is_resumed_goes_on_for_itself() {
    let app = TestApp::start().await;
    let script =
        [json!({"tool_calls": [{"name": "pick", "arguments": {"n": 1}}]}), saying("Picked.")];
    helper(&app, "picker", &script, &[client_tool("pick")]).await;
    for (wish, r#type) in [("cancel", "SubRunCancelled"), ("interrupt", "SubRunInterrupted")] {
        let body = asker(&agent_tool("ask", "picker"));
        let (run, found) = with_sub_runs(&app, &body, "requires_action", 1).await;
        app.post(&run_path(&found[0], wish), &json!({})).await.expect(202);
        assert_eq!(app.rested(&run).await["answer"], "Done.");
        let outcome = &app.outcomes(&run).await[0];
        assert_eq!(
            (&outcome["kind"], &outcome["error"]["type"]),
            (&json!("execution"), &json!(r#type))
        );
        if wish == "interrupt" {
            app.post(&run_path(&found[0], "resume"), &json!({})).await.expect(202);
            let resumed = app.rested(&found[0]).await;
            assert_eq!(resumed["status"], "completed", "{resumed}");
        }
        assert_invariants(&app.db).await;
    }
}

/// All that a run started was cancelled for it, and what its call has done is not known.
async fn assert_all_given_up(app: &TestApp, run: &Value) {
    let outcome = &app.outcomes(run).await[0];
    assert_eq!(outcome["kind"], "in_doubt");
    let [middle] = sub_runs(app, run).await.try_into().unwrap();
    assert_eq!(middle["status"], "cancelled");
    let below = sub_runs(app, &middle).await;
    assert_eq!(below.len(), 2);
    assert!(below.iter().all(|sub_run| sub_run["status"] == "cancelled"));
    if run["status"] == "cancelled" {
        assert_eq!(run["stopped"]["calls_in_doubt"], json!([outcome["tool_call_id"]]));
    }
}

#[tokio::test]
async fn a_run_that_ends_takes_all_that_it_started_with_it() {
    let app = TestApp::start().await;
    let script =
        [json!({"tool_calls": [{"name": "pick", "arguments": {"n": 1}}]}), saying("Picked.")];
    helper(&app, "picker", &script, &[client_tool("pick")]).await;
    helper(
        &app,
        "middle",
        &[asking(&["down", "down"]), saying("Down.")],
        &[agent_tool("down", "picker")],
    )
    .await;
    let is_deep = "SELECT count(*) = 2 FROM run WHERE status = 'requires_action' AND cardinality(ancestors) = 2
                      AND cancel_requested_at IS NULL";
    for end in ["cancel", "interrupt", "timeout", "rollback"] {
        let mut body = asker(&agent_tool("ask", "middle"));
        if end == "timeout" {
            body["run_timeout_ms"] = json!(3_000);
        }
        let run = app.start_run(&body).await;
        if end != "timeout" {
            until(&app.db, is_deep).await;
        }
        match end {
            "timeout" => {}
            "rollback" => {
                let mut next =
                    json!({"agent": agent_with(&[saying("Next.")], &[]), "input": "Go."});
                (next["thread_id"], next["on_busy"]) =
                    (run["thread_id"].clone(), json!("rollback"));
                assert_eq!(app.run_body(&next).await["answer"], "Next.");
            }
            wish => drop(app.post(&run_path(&run, wish), &json!({})).await.expect(202)),
        }
        let wanted = match end {
            "timeout" => "failed",
            "interrupt" => "interrupted",
            _ => "cancelled",
        };
        let ended = app.rested(&run).await;
        assert_eq!(ended["status"], wanted, "{end}");
        at_rest(&app).await;
        // Where it is slow, the time may be over before it has called anybody.
        if end != "timeout" {
            assert_all_given_up(&app, &ended).await;
        }
        assert_invariants(&app.db).await;
    }
}

#[tokio::test]
async fn an_agent_that_takes_too_long_is_cancelled_and_the_run_goes_on() {
    let app = TestApp::start().await;
    let script =
        [json!({"tool_calls": [{"name": "pick", "arguments": {"n": 1}}]}), saying("Picked.")];
    helper(&app, "picker", &script, &[client_tool("pick")]).await;
    let mut tool = agent_tool("ask", "picker");
    tool["timeout_ms"] = json!(300);
    let run = app.run_body(&asker(&tool)).await;
    assert_eq!(run["answer"], "Done.");
    assert_eq!(app.outcomes(&run).await[0]["kind"], "timeout");
    at_rest(&app).await;
    assert_eq!(sub_runs(&app, &run).await[0]["status"], "cancelled");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn agents_tools_and_callers_of_one_turn_are_waited_for_together_and_told_in_call_order() {
    let app = TestApp::start().await;
    helper(&app, "echo", &[json!({"echo": true})], &[]).await;
    app.tools.hold("look");
    let parameters = json!({"type": "object", "properties": {"task": {"type": "string"}}});
    let mut pick = client_tool("pick");
    pick["parameters"] = parameters.clone();
    let tools =
        [agent_tool("ask", "echo"), pick, tool(&app.tools, "look", "at_most_once", &parameters)];
    let agent =
        agent_with(&[asking(&["ask", "pick", "ask", "look", "ask"]), saying("Done.")], &tools);
    let body = json!({"agent": agent, "input": "Go."});
    // The agents answer while the tool is at work, and then only the caller is waited for.
    let (run, found) = with_sub_runs(&app, &body, "completed", 3).await;
    app.tools.wait_for(1).await;
    app.tools.release("look");
    let waiting = app.rested(&run).await;
    assert_eq!(waiting["requires_action"]["reason"], "tool_results");
    assert_eq!(waiting["requires_action"]["tool_calls"].as_array().unwrap().len(), 1);
    let call = waiting["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap();
    app.give_result(&run, call, &json!("picked")).await.expect(200);
    assert_eq!(app.rested(&run).await["answer"], "Done.");
    let outcomes = app.outcomes(&run).await;
    let texts: Vec<_> = outcomes.iter().map(|outcome| outcome["output"]["text"].clone()).collect();
    assert_eq!(
        (&texts[0], &texts[1], &texts[2], &texts[4]),
        (&json!("Task 1."), &json!("picked"), &json!("Task 3."), &json!("Task 5."))
    );
    assert_eq!(found.len(), 3);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_caller_is_asked_while_an_agent_still_works_and_its_answer_does_not_end_the_wait() {
    let app = TestApp::start().await;
    let script =
        [json!({"tool_calls": [{"name": "pick", "arguments": {"n": 1}}]}), saying("Picked.")];
    helper(&app, "picker", &script, &[client_tool("pick")]).await;
    let mut pick = client_tool("pick");
    pick["parameters"] = json!({"type": "object", "properties": {"task": {"type": "string"}}});
    let agent = agent_with(
        &[asking(&["ask", "pick"]), saying("Done.")],
        &[agent_tool("ask", "picker"), pick],
    );
    let (run, found) =
        with_sub_runs(&app, &json!({"agent": agent, "input": "Go."}), "requires_action", 1).await;
    let waiting = app.rested(&run).await;
    assert_eq!(waiting["requires_action"]["reason"], "tool_results");
    assert_eq!(waiting["sub_runs"][0]["run_id"], found[0]["id"]);
    assert_invariants(&app.db).await;
    let call = waiting["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap();
    app.give_result(&run, call, &json!("mine")).await.expect(200);
    until(
        &app.db,
        "SELECT count(*) = 1 FROM run
                     WHERE status = 'queued' AND requires_action->>'reason' = 'sub_runs'",
    )
    .await;
    assert_invariants(&app.db).await;
    let call = found[0]["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap();
    app.give_result(&found[0], call, &json!("its")).await.expect(200);
    assert_eq!(app.rested(&run).await["answer"], "Done.");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn an_agent_runs_with_approval_only_and_in_the_version_that_was_the_newest_when_it_was_called()
 {
    let app = TestApp::start().await;
    let agent = helper(&app, "echo", &[json!({"echo": true})], &[]).await;
    let mut tool = agent_tool("ask", "echo");
    tool["approval"] = json!("always");
    for approve in [true, false] {
        let run = app.parked(&asker(&tool)).await;
        assert_eq!(run["requires_action"]["reason"], "approval");
        assert_eq!(sub_runs(&app, &run).await, Vec::<Value>::new());
        let call = run["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap();
        let mut newer = agent_with(&[saying("Newer.")], &[]);
        newer["name"] = json!("echo");
        app.put(&format!("/v1/agents/{}", agent["id"].as_str().unwrap()), &newer).await.expect(200);
        let decision = if approve {
            json!({"approve": true, "arguments": {"task": "Another task."}})
        } else {
            json!({"approve": false})
        };
        app.decide(&run, call, &decision).await.expect(200);
        assert_eq!(app.rested(&run).await["answer"], "Done.");
        let outcome = &app.outcomes(&run).await[0];
        let found = sub_runs(&app, &run).await;
        if approve {
            assert_eq!(outcome["output"]["text"], "Another task.");
            assert_eq!(found[0]["agent_version"], 1);
        } else {
            assert_eq!(outcome["kind"], "denied");
            assert_eq!(found, Vec::<Value>::new());
        }
        assert_invariants(&app.db).await;
    }
}

#[tokio::test]
async fn an_agent_that_is_not_there_is_refused_when_it_is_named_and_told_when_it_is_called() {
    let app = TestApp::start().await;
    let named = |at: &str| {
        json!([{"pointer": at, "code": "unknown_agent",
        "message": "there is no such agent, or not in this version"}])
    };
    let body = asker(&agent_tool("ask", "nobody"));
    let problem = app.post("/v1/runs", &body).await.expect_problem(422, "unknown-agent");
    assert_eq!(problem["errors"], named("/agent/tools/0/agent"));
    let problem = app.post("/v1/agents", &body["agent"]).await.expect_problem(422, "unknown-agent");
    assert_eq!(problem["errors"], named("/tools/0/agent"));
    let agent = helper(&app, "echo", &[json!({"echo": true})], &[]).await;
    let mut versioned = agent_tool("ask", "echo");
    versioned["version"] = json!(2);
    app.post("/v1/runs", &asker(&versioned)).await.expect_problem(422, "unknown-agent");
    let caller =
        helper(&app, "caller", &[asking(&["ask"]), saying("Done.")], &[agent_tool("ask", "echo")])
            .await;
    app.delete(&format!("/v1/agents/{}", agent["id"].as_str().unwrap())).await.expect(204);
    let run = app.run_body(&json!({"agent_id": caller["id"], "input": "Go."})).await;
    assert_eq!(run["answer"], "Done.");
    let outcome = &app.outcomes(&run).await[0];
    assert_eq!(
        (&outcome["kind"], &outcome["error"]["type"]),
        (&json!("execution"), &json!("UnknownAgent"))
    );
    assert_eq!(count(&app.db, "SELECT count(*) FROM run").await, 1);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn an_agent_of_another_tenant_is_not_there() {
    let app = TestApp::with(&[("AGENTLING_API_KEY", "a-bootstrap-key-of-some-length")]).await;
    let app = app.with_key("a-bootstrap-key-of-some-length");
    let agent = helper(&app, "echo", &[json!({"echo": true})], &[]).await;
    let foreign = mint_key(&app, "other", &["admin"]).await;
    for name in ["echo", agent["id"].as_str().unwrap()] {
        let body = asker(&agent_tool("ask", name));
        let request = app.client().post(app.url("/v1/runs")).bearer_auth(&foreign);
        app.send(with_json(request, &body)).await.expect_problem(422, "unknown-agent");
    }
    let run = app.run_body(&asker(&agent_tool("ask", "echo"))).await;
    let path = format!("/v1/runs?parent_run_id={}", run["id"].as_str().unwrap());
    let request = app.client().get(app.url(&path)).bearer_auth(&foreign);
    assert_eq!(app.send(request).await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn agents_call_each_other_only_so_deep_and_so_often_in_a_turn() {
    let app = TestApp::with(&[("AGENTLING_AGENT_DEPTH", "3")]).await;
    let own = agent_tool("again", "recursive");
    let agent = helper(&app, "recursive", &[asking(&["again"]), saying("Up.")], &[own]).await;
    let run = app.run_body(&json!({"agent_id": agent["id"], "input": "Go."})).await;
    assert_eq!(run["answer"], "Up.");
    assert_eq!(count(&app.db, "SELECT count(*) FROM run").await, 4);
    let deepest = "SELECT count(*) FROM tool_call WHERE outcome->'error'->>'type' = 'TooDeep'";
    assert_eq!(count(&app.db, deepest).await, 1);
    helper(&app, "echo", &[json!({"echo": true})], &[]).await;
    let agent = agent_with(&[asking(&["ask"; 34]), saying("Done.")], &[agent_tool("ask", "echo")]);
    let run = app.run(&agent, "Go.").await;
    assert_eq!(run["answer"], "Done.");
    let outcomes = app.outcomes(&run).await;
    let refused: Vec<_> =
        outcomes.iter().map(|outcome| outcome["error"]["type"] == "TooManyRuns").collect();
    assert_eq!(refused, [vec![false; 32], vec![true; 2]].concat());
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn runs_that_wait_for_agents_keep_no_place_that_the_agents_need() {
    let settings = [
        ("AGENTLING_TENANT_RUNNING", "1"),
        ("AGENTLING_CONCURRENCY", "2"),
        ("AGENTLING_LEASE_MS", "30000"),
    ];
    let app = TestApp::with(&settings).await;
    helper(&app, "echo", &[json!({"echo": true})], &[]).await;
    let body = asker(&agent_tool("ask", "echo"));
    for _ in 0..64 {
        app.start_run(&body).await;
    }
    until(&app.db, "SELECT count(*) = 128 FROM run WHERE status = 'completed'").await;
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn what_an_agent_uses_is_used_of_the_budget_of_its_caller_and_once_of_that_of_the_tenant() {
    let app = TestApp::start().await;
    app.put("/v1/budgets/tenant/default", &json!({"turns": 100, "tokens": 1_000_000}))
        .await
        .expect(200);
    let usage = |text: &str| json!({"text": text, "usage": {"input": 10, "output": 5}});
    helper(&app, "echo", &[usage("Hi.")], &[]).await;
    let mut tool = agent_tool("ask", "echo");
    tool["budget"] = json!({"turns": 1});
    let mut call = asking(&["ask"]);
    call["usage"] = json!({"input": 10, "output": 5});
    let agent = agent_with(&[call, usage("Done.")], &[tool]);
    let body = json!({"agent": agent, "input": "Go.", "budget": {"tokens": 100_000, "turns": 3}});
    let run = app.run_body(&body).await;
    assert_eq!(run["answer"], "Done.");
    let id = run["id"].as_str().unwrap();
    let own = app.get(&format!("/v1/budgets/run/{id}")).await.expect(200);
    assert_eq!((&own["turns"]["used"], &own["tokens"]["used"]), (&json!(3), &json!(45)));
    assert_eq!(own["tokens"]["reserved"], 0);
    let [sub_run] = sub_runs(&app, &run).await.try_into().unwrap();
    assert_eq!(sub_run["budget"], json!({"turns": 1}));
    let tenant = app.get("/v1/budgets/tenant/default").await.expect(200);
    assert_eq!((&tenant["turns"]["used"], &tenant["tokens"]["used"]), (&json!(3), &json!(45)));
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn what_an_agent_uses_is_used_of_the_budgets_of_its_callers_thread_and_agent() {
    let app = TestApp::start().await;
    helper(&app, "echo", &[json!({"echo": true})], &[]).await;
    let down = [asking(&["down"]), saying("Down.")];
    let middle = helper(&app, "middle", &down, &[agent_tool("down", "echo")]).await;
    let outer = [asking(&["ask"]), saying("Done.")];
    let outer = helper(&app, "outer", &outer, &[agent_tool("ask", "middle")]).await;
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    let budgets = [("agent", &outer, 5), ("thread", &thread, 5), ("agent", &middle, 3)];
    for (scope, owner, _) in budgets {
        let path = format!("/v1/budgets/{scope}/{}", owner["id"].as_str().unwrap());
        app.put(&path, &json!({"turns": 5})).await.expect(200);
    }
    let run = json!({"agent_id": "outer", "thread_id": thread["id"], "input": "Go."});
    assert_eq!(app.run_body(&run).await["answer"], "Done.");
    for (scope, owner, used) in budgets {
        let path = format!("/v1/budgets/{scope}/{}", owner["id"].as_str().unwrap());
        assert_eq!(app.get(&path).await.expect(200)["turns"]["used"], used, "{scope}");
    }
    assert_invariants(&app.db).await;
    let refused = app.post("/v1/runs", &run).await;
    assert!(refused.text.contains("budget-exhausted"), "{}", refused.text);
}

#[tokio::test]
async fn an_agent_that_calls_itself_uses_of_its_budget_once_a_turn() {
    let app = TestApp::start().await;
    let script = [asking(&["ask"]), saying("Done.")];
    let agent = helper(&app, "self", &script, &[agent_tool("ask", "self")]).await;
    let path = format!("/v1/budgets/agent/{}", agent["id"].as_str().unwrap());
    app.put(&path, &json!({"turns": 100})).await.expect(200);
    let run = app.run_body(&json!({"agent_id": "self", "input": "Go."})).await;
    assert_eq!(run["answer"], "Done.");
    let turns = count(&app.db, "SELECT sum(turn) FROM run").await;
    assert_eq!(app.get(&path).await.expect(200)["turns"]["used"], turns);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn an_agent_waits_for_room_in_the_budget_of_its_caller_and_goes_on_when_that_is_raised() {
    let app = TestApp::start().await;
    helper(&app, "echo", &[json!({"echo": true})], &[]).await;
    let mut body = asker(&agent_tool("ask", "echo"));
    body["budget"] = json!({"turns": 1});
    let (run, found) = with_sub_runs(&app, &body, "requires_action", 1).await;
    assert_eq!(found[0]["requires_action"]["reason"], "budget_exhausted");
    assert_invariants(&app.db).await;
    let id = run["id"].as_str().unwrap();
    assert_eq!(app.get(&format!("/v1/runs/{id}")).await.expect(200)["status"], "queued");
    app.put(&format!("/v1/budgets/run/{id}"), &json!({"turns": 3})).await.expect(200);
    assert_eq!(app.rested(&run).await["answer"], "Done.");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn an_agent_whose_price_nobody_knows_is_refused_where_money_is_counted() {
    let app = TestApp::start().await;
    helper(&app, "echo", &[json!({"echo": true})], &[]).await;
    let mut body = asker(&agent_tool("ask", "echo"));
    body["agent"]["model"]["price"] = json!({"input": "1", "output": "1"});
    body["budget"] = json!({"cost": "1"});
    let run = app.run_body(&body).await;
    assert_eq!(run["answer"], "Done.", "{run}");
    assert_eq!(app.outcomes(&run).await[0]["error"]["type"], "UnknownPrice");
    assert_eq!(sub_runs(&app, &run).await, Vec::<Value>::new());
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn what_agents_said_to_each_other_is_erased_with_the_run_that_it_was_said_for() {
    let app = TestApp::start().await;
    helper(&app, "echo", &[json!({"echo": true})], &[]).await;
    helper(&app, "middle", &[asking(&["down"]), saying("Down.")], &[agent_tool("down", "echo")])
        .await;
    let body = asker(&agent_tool("ask", "middle"));
    let (erased, kept) = (app.run_body(&body).await, app.run_body(&body).await);
    app.delete(run_path(&erased, "").trim_end_matches('/')).await.expect(204);
    assert_eq!(count(&app.db, "SELECT count(*) FROM run").await, 3);
    assert_eq!(sub_runs(&app, &kept).await.len(), 1);
    assert_eq!(count(&app.db, "SELECT count(*) FROM tombstone WHERE kind = 'thread'").await, 2);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_thread_goes_with_all_that_was_made_for_it_and_not_while_any_of_that_is_under_way() {
    let app = TestApp::start().await;
    let pick = |n: u32| json!({"tool_calls": [{"name": "pick", "arguments": {"n": n}}]});
    let script = [pick(1), pick(2), saying("Picked.")];
    helper(&app, "picker", &script, &[client_tool("pick")]).await;
    helper(&app, "middle", &[asking(&["down"]), saying("Down.")], &[agent_tool("down", "picker")])
        .await;
    let middle = [agent_tool("ask", "middle")];
    let (run, _) = with_sub_runs(&app, &asker(&middle[0]), "queued", 1).await;
    until(&app.db, "SELECT count(*) = 1 FROM run WHERE status = 'requires_action'").await;
    let below = sub_runs(&app, &sub_runs(&app, &run).await[0]).await.remove(0);
    // It is ended and begun again for itself, so that nobody waits for it.
    app.post(&run_path(&below, "interrupt"), &json!({})).await.expect(202);
    assert_eq!(app.rested(&run).await["answer"], "Done.");
    app.post(&run_path(&below, "resume"), &json!({})).await.expect(202);
    let thread = format!("/v1/threads/{}", run["thread_id"].as_str().unwrap());
    let problem = app.delete(&thread).await.expect_problem(409, "thread-busy");
    assert_eq!(problem["active_run_id"], below["id"], "{problem}");
    app.post(&run_path(&below, "cancel"), &json!({"wait": true})).await.expect(202);
    app.delete(&thread).await.expect(204);
    for table in ["run", "thread", "step", "tool_call"] {
        let sql: &'static str = Box::leak(format!("SELECT count(*) FROM {table}").into());
        assert_eq!(count(&app.db, sql).await, 0, "{table}");
    }
    assert_eq!(count(&app.db, "SELECT count(*) FROM tombstone").await, 6);
    app.get(&run_path(&below, "steps")).await.expect_problem(410, "gone");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn what_is_kept_no_longer_goes_with_what_was_made_for_it() {
    let app = TestApp::start().await;
    helper(&app, "echo", &[json!({"echo": true})], &[]).await;
    let body = asker(&agent_tool("ask", "echo"));
    let (old, kept) = (app.run_body(&body).await, app.run_body(&body).await);
    let thread = old["thread_id"].as_str().unwrap().parse().unwrap();
    let (store, tenant) = (app.db.store(), TenantId::default());
    assert!(retention::forget_thread(&store, &tenant, thread, Duration::ZERO).await.unwrap());
    assert_eq!(count(&app.db, "SELECT count(*) FROM run").await, 2);
    assert_eq!(sub_runs(&app, &kept).await.len(), 1);
    assert_invariants(&app.db).await;
}

/// Whether every run that is under way is to end.
const ALL_TO_END: &str = "SELECT count(*) FROM run WHERE cancel_requested_at IS NULL
                             AND status IN ('queued', 'running', 'requires_action')";

#[tokio::test]
async fn nothing_goes_on_below_a_run_that_is_cancelled_once_that_is_told() {
    let app = TestApp::start().await;
    let parameters = json!({"type": "object", "properties": {}});
    let mut pay = tool(&app.tools, "pay", "at_most_once", &parameters);
    pay["approval"] = json!("always");
    let script = [json!({"tool_calls": [{"name": "pay", "arguments": {}}]}), saying("Paid.")];
    helper(&app, "payer", &script, &[pay]).await;
    helper(&app, "middle", &[asking(&["down"]), saying("Down.")], &[agent_tool("down", "payer")])
        .await;
    for _ in 0..5 {
        let (run, found) =
            with_sub_runs(&app, &asker(&agent_tool("ask", "middle")), "queued", 1).await;
        until(&app.db, "SELECT count(*) = 1 FROM run WHERE status = 'requires_action'").await;
        let below = sub_runs(&app, &found[0]).await.remove(0);
        let call = below["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap();
        app.post(&run_path(&run, "cancel"), &json!({"wait": true})).await.expect(202);
        assert_eq!(count(&app.db, ALL_TO_END).await, 0);
        assert_eq!(app.decide(&below, call, &json!({"approve": true})).await.status, 409);
        at_rest(&app).await;
        assert_eq!(app.rested(&below).await["status"], "cancelled");
    }
    assert_eq!(app.tools.seen(), []);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_sub_run_whose_time_is_over_is_to_end_before_the_model_hears_of_it() {
    let app = TestApp::start().await;
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let steps = (0..200)
        .map(|n| json!({"tool_calls": [{"name": "act", "arguments": {"n": n}}], "delay_ms": 50}));
    let mut busy = agent_with(
        &steps.collect::<Vec<_>>(),
        &[tool(&app.tools, "act", "at_most_once", &parameters)],
    );
    (busy["name"], busy["max_steps"]) = (json!("busy"), json!(100));
    app.create_agent(&busy).await;
    let mut ask = agent_tool("ask", "busy");
    ask["timeout_ms"] = json!(1_000);
    let run = app.run_body(&asker(&ask)).await;
    assert_eq!(app.outcomes(&run).await[0]["kind"], "timeout", "{run}");
    assert_eq!(count(&app.db, ALL_TO_END).await, 0);
    at_rest(&app).await;
    assert_eq!(sub_runs(&app, &run).await[0]["status"], "cancelled");
    assert_invariants(&app.db).await;
}
