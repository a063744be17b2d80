//! Runs of agents that remember.

use agentling::domain::id::{CallId, TenantId};
use agentling::domain::memory_item::{ItemPlace, ItemPut, ItemValue};
use agentling::store::memory_items;
use futures::future::join_all;
use serde_json::{Value, json};

use super::crash::at_every_commit;
use crate::support::{
    FakeTools, Harm, PgProxy, TestApp, TestDb, agent_with, assert_invariants, count, history,
    picture_of, run_path, saying, tool,
};

fn builtin(name: &str, namespace: &Value) -> Value {
    json!({"kind": "builtin", "name": name, "namespace": namespace})
}

/// An agent that remembers in a namespace.
fn agent(script: &[Value], namespace: &Value) -> Value {
    let tools = ["memory_put", "memory_get", "memory_search"];
    agent_with(script, &tools.map(|name| builtin(name, namespace)))
}

fn calls(calls: &[(&str, Value)]) -> Value {
    let calls = calls.iter().map(|(name, arguments)| json!({"name": name, "arguments": arguments}));
    json!({"tool_calls": calls.collect::<Vec<_>>()})
}

fn put(key: &str, value: &Value) -> (&'static str, Value) {
    ("memory_put", json!({"key": key, "value": value}))
}

/// What the calls of a run gave, in call order.
async fn given(app: &TestApp, run: &Value) -> Vec<Value> {
    assert_eq!(run["status"], "completed", "{run}");
    let outcomes = app.outcomes(run).await;
    outcomes.iter().map(|outcome| outcome["output"]["json"].clone()).collect()
}

#[tokio::test]
async fn what_one_run_puts_another_one_finds_in_its_own_namespace() {
    let app = TestApp::start().await;
    let script = [
        calls(&[
            put("colour", &json!({"is": "blue"})),
            put("colour", &json!("green")),
            put("n", &json!(1)),
        ]),
        saying("Done."),
    ];
    let users = json!(["users", "{{metadata.user}}"]);
    let labelled = async |script: &[Value], user: &str| {
        let agent = agent(script, &users);
        app.run_body(&json!({"agent": agent, "input": "go", "metadata": {"user": user}})).await
    };
    let run = labelled(&script, "42").await;
    assert_eq!(
        given(&app, &run).await,
        [
            json!({"key": "colour", "version": 1}),
            json!({"key": "colour", "version": 2}),
            json!({"key": "n", "version": 1})
        ]
    );
    // The caller sees the same items, and which call put them.
    let versions = app.get("/v1/memory/items/versions?namespace=users/42&key=colour").await;
    let versions = versions.expect(200);
    let outcomes = app.outcomes(&run).await;
    assert_eq!(versions["items"][0]["tool_call_id"], outcomes[1]["tool_call_id"]);
    let get = ("memory_get", json!({"key": "colour"}));
    let script = [calls(&[get, ("memory_search", json!({"query": "green"}))]), saying("Done.")];
    let mine = given(&app, &labelled(&script, "42").await).await;
    assert_eq!((&mine[0]["found"], &mine[0]["item"]["value"]), (&json!(true), &json!("green")));
    assert_eq!(mine[1]["items"][0]["key"], "colour");
    let theirs = given(&app, &labelled(&script, "43").await).await;
    assert_eq!(theirs, [json!({"found": false}), json!({"items": []})]);
    let no_way = labelled(&script, "42/x").await;
    let outcomes = app.outcomes(&no_way).await;
    assert_eq!(outcomes[0]["error"]["type"], "NamespaceUnavailable", "{outcomes:?}");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_model_that_puts_what_does_not_fit_is_told_and_goes_on() {
    let app = TestApp::start().await;
    let large = json!("x".repeat(70_000));
    let raw = r#"{"key": "k", "value": {"a": "\u0000"}}"#;
    let mut bad = calls(&[put("k", &large), put(" k", &json!(1))]);
    let nul = json!({"name": "memory_put", "raw_arguments": raw});
    bad["tool_calls"].as_array_mut().unwrap().push(nul);
    let script = [bad, calls(&[put("k", &json!(1))]), saying("Done.")];
    let run = app.run(&agent(&script, &json!(["a"])), "go").await;
    assert_eq!(run["status"], "completed", "{run}");
    let outcomes = app.outcomes(&run).await;
    let kinds: Vec<&str> = outcomes.iter().map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds[..3], ["invalid_arguments"; 3]);
    assert_eq!(kinds[3], "success");
    let told = outcomes[2]["error"]["message"].as_str().unwrap();
    assert_eq!(told, "/value/a: U+0000 cannot be stored");
    assert_eq!(count(&app.db, "SELECT count(*) FROM memory_item").await, 1);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn replays_and_forks_put_nothing_again() {
    let app = TestApp::start().await;
    let script = [calls(&[put("k", &json!(1))]), saying("Done.")];
    let run = app.run(&agent(&script, &json!(["a"])), "go").await;
    let before = picture_of(&app.db, "memory_item_version").await;
    let replayed = app.post(&run_path(&run, "replay"), &json!({})).await.expect(200);
    assert_eq!(replayed["matches"], replayed["requests"]);
    let fork = format!("/v1/threads/{}/fork", run["thread_id"].as_str().unwrap());
    let fork = app.post(&fork, &json!({"at_seq": 2})).await.expect(201);
    let body = json!({"agent": agent(&[saying("Done.")], &json!(["a"])), "input": "more",
                      "thread_id": fork["id"]});
    assert_eq!(app.run_body(&body).await["status"], "completed");
    assert_eq!(picture_of(&app.db, "memory_item_version").await, before);
    assert_invariants(&app.db).await;
}

/// Two values at once, then another one of the same key.
fn putting(_: &FakeTools) -> Value {
    let first = calls(&[put("k", &json!(1)), put("l", &json!(2))]);
    agent(&[first, calls(&[put("k", &json!(3))]), saying("Done.")], &json!(["a"]))
}

#[tokio::test]
async fn a_crash_at_any_commit_puts_each_value_once() {
    at_every_commit(putting, async |app, undisturbed| {
        assert_eq!(history(&app.db).await, undisturbed);
        assert_eq!(count(&app.db, "SELECT count(*) FROM memory_item_version").await, 3);
        let newest = "SELECT version::bigint FROM memory_item WHERE key = 'k'";
        assert_eq!(count(&app.db, newest).await, 2);
    })
    .await;
}

#[tokio::test]
async fn a_call_that_two_workers_make_at_the_same_time_puts_one_version() {
    let db = TestDb::new().await;
    let (store, tenant) = (db.store(), TenantId::default());
    for round in 0..10 {
        let place = ItemPlace { namespace: "a".parse().unwrap(), key: "k".parse().unwrap() };
        let value = ItemValue::of(&round.to_string()).unwrap();
        let put = ItemPut { place, value, ttl: None, embedding: None };
        let call = CallId(format!("call_{round}"));
        let done =
            join_all((0..4).map(|_| memory_items::put_by_call(&store, &tenant, &put, &call)));
        for facts in done.await {
            assert_eq!(facts.unwrap().version, round + 1);
        }
    }
    assert_eq!(count(&db, "SELECT count(*) FROM memory_item_version").await, 10);
    // What others have put since stays.
    let place = ItemPlace { namespace: "a".parse().unwrap(), key: "k".parse().unwrap() };
    let stale = ItemPut { place, value: ItemValue::of("0").unwrap(), ttl: None, embedding: None };
    let again = memory_items::put_by_call(&store, &tenant, &stale, &CallId("call_0".into())).await;
    assert_eq!(again.unwrap().version, 1);
    let kept = "SELECT document::bigint FROM memory_item";
    assert_eq!(count(&db, kept).await, 9);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn a_put_whose_answer_is_lost_is_made_once() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let proxy = PgProxy::to(&db.url).await;
    let seen = TestDb { url: proxy.url.clone() };
    let app = TestApp::on(seen, tools, &[], agentling::app::Surroundings::default()).await;
    proxy.trap("INSERT INTO memory_item AS i", Harm::LoseAnswer, 1);
    let script = [calls(&[put("k", &json!(1))]), saying("Done.")];
    let run = app.run(&agent(&script, &json!(["a"])), "go").await;
    assert_eq!(given(&app, &run).await, [json!({"key": "k", "version": 1})]);
    assert_eq!(proxy.times(), 1);
    assert_eq!(count(&db, "SELECT count(*) FROM memory_item_version").await, 1);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn an_agent_is_refused_whose_tools_remember_nowhere_or_twice() {
    let app = TestApp::start().await;
    let homeless = json!({"kind": "builtin", "name": "memory_put"});
    let refused = app.post("/v1/agents", &agent_with(&[], &[homeless])).await;
    let problem = refused.expect_problem(422, "validation-failed");
    assert_eq!(problem["errors"][0]["pointer"], "/tools/0/namespace");
    let put = builtin("memory_put", &json!(["a"]));
    let twice = app.post("/v1/agents", &agent_with(&[], &[put.clone(), put])).await;
    twice.expect_problem(409, "tool-name-conflict");
    // Names that the server has tools of are free for other tools where it has none.
    let own = tool(&app.tools, "memory_get", "pure", &json!({"type": "object"}));
    app.create_agent(&agent_with(&[], &[own])).await;
}
