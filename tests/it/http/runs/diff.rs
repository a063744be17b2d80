//! `GET /v1/runs/{run_id}/diff/{other_run_id}`.

use serde_json::{Value, json};

use crate::http::send_as;
use crate::support::{FakeModel, ModelReply, TestApp, mint_key, requests_of, tool};

fn path(a: &Value, b: &Value) -> String {
    let id = |run: &Value| run["id"].as_str().unwrap().to_owned();
    format!("/v1/runs/{}/diff/{}", id(a), id(b))
}

fn told<'v>(items: &'v Value, members: [&str; 3]) -> Vec<[&'v Value; 3]> {
    items.as_array().unwrap().iter().map(|item| members.map(|name| &item[name])).collect()
}

fn agent(app: &TestApp, model: &FakeModel) -> Value {
    let open = json!({ "type": "object", "additionalProperties": true });
    json!({ "name": "a", "model": model.spec(true), "tools": [tool(&app.tools, "echo", "pure", &open)] })
}

#[tokio::test]
async fn two_runs_are_compared_step_by_step_and_request_by_request() {
    let app = TestApp::start().await;
    let model = FakeModel::start([
        ModelReply::call("echo", r#"{"n": 1}"#),
        ModelReply::text("one"),
        ModelReply::call("echo", r#"{"n": 2}"#),
        ModelReply::call("echo", r#"{"n": 3}"#),
        ModelReply::text("three"),
    ])
    .await;
    let agent = agent(&app, &model);
    let (a, b) = (app.run(&agent, "go").await, app.run(&agent, "go").await);
    let diff = app.get(&path(&a, &b)).await.expect(200);
    let steps = told(&diff["steps"], ["turn", "step_kind", "status"]);
    let expected = json!([
        [0, "task", "equal"],
        [1, "action", "changed"],
        [2, "action", "changed"],
        [2, "final", "only_a"],
        [3, "action", "only_b"],
        [3, "final", "only_b"],
    ]);
    assert_eq!(json!(steps), expected);
    let places = told(&diff["steps"][1]["differences"], ["pointer", "a", "b"]);
    let arguments = json!(["/reply/parts/0/arguments", r#""{\"n\": 1}""#, r#""{\"n\": 2}""#]);
    assert!(places.iter().any(|place| json!(place) == arguments), "{places:?}");
    assert!(places.iter().all(|place| !place[0].as_str().unwrap().ends_with("_at")), "{places:?}");

    let requests = told(&diff["requests"], ["turn", "attempt", "status"]);
    assert_eq!(json!(requests), json!([[1, 1, "equal"], [2, 1, "changed"], [3, 1, "only_b"]]));
    assert_eq!(diff["requests"][0]["parts"], Value::Null);
    let changed = &diff["requests"][1];
    let (of_a, of_b) = (requests_of(&app, &a).await, requests_of(&app, &b).await);
    assert_eq!(
        (&changed["a"]["request_id"], &changed["b"]["request_id"]),
        (&of_a[1]["id"], &of_b[1]["id"])
    );
    assert_eq!(
        (&changed["a"]["sha256"], &changed["b"]["bytes"]),
        (&of_a[1]["sha256"], &of_b[1]["bytes"])
    );
    let bodies =
        [&of_a[1], &of_b[1]].map(|it| format!("/v1/requests/{}/body", it["id"].as_str().unwrap()));
    let (one, other) = (app.get(&bodies[0]).await.text, app.get(&bodies[1]).await.text);
    let offset = usize::try_from(changed["parts"]["offset"].as_u64().unwrap()).unwrap();
    assert_eq!(one.get(..offset), other.get(..offset));
    assert_ne!(one.as_bytes()[offset], other.as_bytes()[offset]);
    assert_eq!(changed["parts"]["a_span"]["step_seq"], 2);
    let excerpt = changed["parts"]["a_excerpt"].as_str().unwrap();
    assert!(one.get(offset..).unwrap().starts_with(excerpt), "{excerpt}");

    let same = app.get(&path(&a, &a)).await.expect(200);
    let all = same["steps"].as_array().unwrap().iter().chain(same["requests"].as_array().unwrap());
    assert!(all.into_iter().all(|item| item["status"] == "equal"), "{same}");
}

#[tokio::test]
async fn what_rules_keep_from_callers_is_not_told_and_bytes_only_to_who_may_read_them() {
    let app = TestApp::start().await;
    let model = FakeModel::start(["Blue Heron", "Grey Heron"].map(ModelReply::text)).await;
    let mut agent = agent(&app, &model);
    agent["redaction"] = json!([{ "kind": "value", "name": "codename", "value": "Blue Heron" }]);
    let (a, b) = (app.run(&agent, "one Blue Heron").await, app.run(&agent, "two").await);
    let diff = app.get(&path(&a, &b)).await.expect(200);
    assert!(!diff.to_string().contains("Blue Heron"), "{diff}");
    assert!(diff.to_string().contains("Grey Heron"), "{diff}");
    let key = mint_key(&app, "default", &["runs:read"]).await;
    let seen = send_as(&app, &key, ("GET", &path(&a, &b)), "").await.expect(200);
    let parts = &seen["requests"][0]["parts"];
    assert_eq!(parts["offset"], diff["requests"][0]["parts"]["offset"]);
    assert_eq!((&parts["a_excerpt"], &parts["b_excerpt"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_run_that_is_not_there_or_of_another_tenant_is_not_found_on_either_side() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::text("one")]).await;
    let run = app.run(&agent(&app, &model), "go").await;
    let key = mint_key(&app, "other", &["admin"]).await;
    send_as(&app, &key, ("GET", &path(&run, &run)), "").await.expect_problem(404, "not-found");
    let admin = mint_key(&app, "default", &["admin"]).await;
    let never = json!({ "id": "run_0198f2c4a1b27cde8f00112233445566" });
    for (a, b) in [(&run, &never), (&never, &run)] {
        let answer = send_as(&app, &admin, ("GET", &path(a, b)), "").await;
        answer.expect_problem(404, "not-found");
    }
}
