//! Models that are asked when another one has failed for good, and how many retries a server is worth.

use agentling::app::Surroundings;
use serde_json::{Value, json};

use super::crash::healthy;
use crate::support::{
    FakeModel, FakeTools, HeldModel, ModelReply, Piece, TestApp, TestDb, assert_invariants, tool,
};

fn refuses(status: u16) -> ModelReply {
    let error = json!({"error": {"message": "no", "type": "x"}});
    ModelReply::Status(status, "application/json", error.to_string())
}

/// An agent whose model is the first of these and falls back to the others.
fn agent(models: &[Value], tools: &[Value]) -> Value {
    let mut model = models[0].clone();
    model["fallbacks"] = json!(models[1..]);
    json!({"name": "a", "model": model, "tools": tools})
}

fn named(model: &FakeModel, name: &str) -> Value {
    let mut spec = model.spec(true);
    spec["name"] = json!(name);
    spec
}

/// The turns and attempts of a run, and the names of the fallbacks that were asked.
async fn asked(app: &TestApp, run: &Value) -> Vec<(u64, u64, Option<String>)> {
    let events = app.events(run["id"].as_str().unwrap()).await;
    let turns = events
        .iter()
        .filter(|event| event["event"] == "turn.started" || event["event"] == "turn.restarted");
    let told = turns.map(|event| {
        let data = &event["data"];
        let name = data["fallback"]["name"].as_str().map(str::to_owned);
        (data["turn"].as_u64().unwrap(), data["attempt"].as_u64().unwrap(), name)
    });
    told.collect()
}

#[tokio::test]
async fn a_fallback_is_asked_for_the_rest_of_a_turn_and_the_next_turn_begins_with_the_first_model()
{
    let app = TestApp::start().await;
    app.tools.answer("look", |_| (200, json!("rain")));
    let first = FakeModel::start([refuses(401)]).await;
    let second = FakeModel::start([refuses(404)]).await;
    let third =
        FakeModel::start([ModelReply::call("look", "{}"), ModelReply::text("It rains.")]).await;
    let look = tool(&app.tools, "look", "pure", &json!({"type": "object", "properties": {}}));
    let models = [named(&first, "one"), named(&second, "two"), named(&third, "three")];
    let run = app.run(&agent(&models, &[look]), "hi").await;
    assert_eq!(
        (&run["status"], &run["answer"]),
        (&json!("completed"), &json!("It rains.")),
        "{run}"
    );
    let two = Some("two".to_owned());
    let three = Some("three".to_owned());
    let wanted = [
        (1, 1, None),
        (1, 2, two.clone()),
        (1, 3, three.clone()),
        (2, 1, None),
        (2, 2, two),
        (2, 3, three),
    ];
    assert_eq!(asked(&app, &run).await, wanted);
    for (model, name) in [(&first, "one"), (&second, "two"), (&third, "three")] {
        let requests = model.requests();
        assert_eq!(requests.len(), 2, "{name}");
        assert!(requests.iter().all(|request| request.json()["model"] == name), "{name}");
    }
    assert_eq!(third.requests()[1].said_by("tool"), ["\"rain\""]);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn what_every_model_would_refuse_ends_the_run() {
    let app = TestApp::start().await;
    let first = FakeModel::start([refuses(400)]).await;
    let second = FakeModel::start([ModelReply::text("yes")]).await;
    let run = app.run(&agent(&[first.spec(true), second.spec(true)], &[]), "hi").await;
    assert_eq!(run["status"], "failed", "{run}");
    assert_eq!((first.requests().len(), second.requests().len()), (1, 0));
}

#[tokio::test]
async fn the_last_failure_is_told_when_every_model_has_failed() {
    let app = TestApp::start().await;
    let first = FakeModel::start([refuses(401)]).await;
    let second = FakeModel::start([refuses(403)]).await;
    let run = app.run(&agent(&[first.spec(true), second.spec(true)], &[]), "hi").await;
    assert_eq!((&run["status"], &run["error"]["kind"]), (&json!("failed"), &json!("permission")));
    assert_eq!(run["error"]["provider_status"], 403, "{run}");
}

#[tokio::test]
async fn a_model_that_asks_for_too_much_patience_is_left_at_once() {
    let app = TestApp::start().await;
    let script = json!([{"error": {"kind": "rate_limit", "retry_after_ms": 900_000}}]);
    let first = json!({"provider": "scripted", "name": "s", "script": script});
    let second = FakeModel::start([ModelReply::text("yes")]).await;
    let run = app.run(&agent(&[first, second.spec(true)], &[]), "hi").await;
    assert_eq!((&run["status"], &run["attempt"]), (&json!("completed"), &json!(2)), "{run}");
}

#[tokio::test]
async fn a_server_that_takes_over_goes_on_with_the_fallback() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let settings = [("AGENTLING_DRAIN_SECS", "0")];
    let app = TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default()).await;
    let first = FakeModel::start([refuses(401)]).await;
    let second = HeldModel::saying([vec![Piece::Text("I"), Piece::Hold]]).await;
    let spec = agent(&[first.spec(true), second.spec()], &[]);
    let mut stream = app.start_stream(&json!({"agent": spec, "input": "hi"})).await;
    let run = stream.until("text.delta").await[0].data.clone();
    drop(stream);
    app.running.stop().await;
    let app = healthy(&db, &tools).await;
    let run = app.ended(run["id"].as_str().unwrap()).await;
    assert_eq!((&run["status"], &run["answer"]), (&json!("completed"), &json!("Done.")), "{run}");
    assert_eq!((first.requests().len(), second.requests().len()), (1, 2));
    let name = second.spec()["name"].as_str().map(str::to_owned);
    let wanted = [(1, 1, None), (1, 2, name.clone()), (1, 3, name)];
    assert_eq!(asked(&app, &run).await, wanted);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn a_server_whose_retries_are_used_up_is_not_tried_again() {
    let app = TestApp::start().await;
    let down = FakeModel::start([refuses(500)]).await;
    let alone = json!({"name": "a", "model": down.spec(true)});
    let run = app.run(&alone, "hi").await;
    assert_eq!((&run["status"], &run["attempt"]), (&json!("failed"), &json!(4)), "{run}");
    // Three retries were there at first; one call in ten earns another.
    let run = app.run(&alone, "hi").await;
    assert_eq!((&run["status"], &run["attempt"]), (&json!("failed"), &json!(1)), "{run}");
    assert_eq!(run["error"]["kind"], "server", "{run}");
    let up = FakeModel::start([ModelReply::text("yes")]).await;
    let run = app.run(&agent(&[down.spec(true), up.spec(true)], &[]), "hi").await;
    assert_eq!((&run["status"], &run["attempt"]), (&json!("completed"), &json!(2)), "{run}");
    assert_eq!(down.requests().len(), 6);
}
