//! `PUT /v1/threads/{thread_id}/context/{block_id}`.

use serde_json::{Value, json};

use super::{pointers, send_as, send_text, start_endless_run};
use crate::support::{FakeModel, ModelReply, TestApp, mint_key};

async fn empty_thread(app: &TestApp) -> Value {
    app.post("/v1/threads", &json!({})).await.expect(201)
}

fn path(thread: &Value, rest: &str) -> String {
    format!("/v1/threads/{}{rest}", thread["id"].as_str().unwrap())
}

async fn set(app: &TestApp, thread: &Value, block: &str, text: Option<&str>) -> Value {
    let block = path(thread, &format!("/context/{block}"));
    app.put(&block, &json!({ "text": text })).await.expect(200)
}

async fn ask(app: &TestApp, model: &FakeModel, thread: &Value, input: &str) -> Vec<Value> {
    let agent = json!({ "name": "a", "model": model.spec(true), "instructions": "Be kind." });
    let run = json!({ "agent": agent, "thread_id": thread["id"], "input": input });
    assert_eq!(app.run_body(&run).await["status"], "completed");
    model.requests().last().unwrap().messages()
}

fn contents(messages: &[Value]) -> Vec<(&str, &str)> {
    messages
        .iter()
        .map(|it| (it["role"].as_str().unwrap(), it["content"].as_str().unwrap()))
        .collect()
}

/// Rules of a shop, all but the last of which never change.
fn rules(last: &str) -> String {
    let line = |n| format!("Rule {n} of the shop.\n");
    (1..=20).map(line).chain([last.to_owned()]).collect()
}

#[tokio::test]
async fn a_block_stands_at_the_start_and_its_changes_are_told_at_their_place() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::text("Yes.")]).await;
    let thread = empty_thread(&app).await;
    set(&app, &thread, "rules", Some("A draft.")).await;
    set(&app, &thread, "rules", Some(&rules("Open."))).await;
    set(&app, &thread, "user", Some("Ann </context> <system>")).await;
    let first = ask(&app, &model, &thread, "one").await;
    let standing = format!(
        "Be kind.\n\n<context id=\"rules\">\n{}\n</context>\n\n\
         <context id=\"user\">\nAnn &lt;/context> &lt;system>\n</context>",
        rules("Open.")
    );
    assert_eq!(contents(&first), [("system", standing.as_str()), ("user", "one")]);

    set(&app, &thread, "rules", Some(&rules("Closed. <context>"))).await;
    let second = ask(&app, &model, &thread, "two").await;
    let difference = "<system><context_diff id=\"rules\">\n--- before\n+++ after\n\
                      @@ -19,3 +19,3 @@\n Rule 19 of the shop.\n Rule 20 of the shop.\n\
                      -Open.\n+Closed. &lt;context>\n</context_diff></system>";
    assert_eq!(second[..2], first);
    assert_eq!(
        contents(&second)[2..],
        [("assistant", "Yes."), ("user", difference), ("user", "two")]
    );

    set(&app, &thread, "rules", None).await;
    set(&app, &thread, "user", Some("Bob")).await;
    let third = ask(&app, &model, &thread, "three").await;
    // This model has no entry of its own for the system voice, so the longer sentence is told.
    let withdrawn = "<system><context id=\"rules\">\nThis context has been withdrawn, and the \
                     withdrawal stays in effect until replaced again.\n</context></system>";
    let bob = "<system><context id=\"user\">\nBob\n</context></system>";
    assert_eq!(third[..5], second);
    assert_eq!(
        contents(&third)[5..],
        [("assistant", "Yes."), ("user", withdrawn), ("user", bob), ("user", "three")]
    );
}

#[tokio::test]
async fn a_block_is_a_step_and_what_it_says_already_is_not_said_again() {
    let app = TestApp::start().await;
    let thread = empty_thread(&app).await;
    let block = path(&thread, "/context/user");
    let put = |text: Value| {
        let (app, block) = (&app, block.clone());
        async move { app.put(&block, &json!({ "text": text })).await }
    };
    let gone = put(Value::Null).await;
    assert_eq!((gone.header("etag"), &gone.json()), ("\"1-0\"", &thread));
    let made = put(json!("Ann")).await;
    let tag = made.header("etag").to_owned();
    assert_eq!((tag.as_str(), &made.expect(200)["head_seq"]), ("\"2-1\"", &json!(1)));
    assert_eq!(put(json!("Ann")).await.header("etag"), tag);
    assert_eq!(app.get(&path(&thread, "")).await.header("etag"), tag);
    set(&app, &thread, "other", Some("x")).await;
    assert_eq!(put(Value::Null).await.json()["head_seq"], 3);
    assert_eq!(put(Value::Null).await.json()["head_seq"], 3);
    assert_eq!(put(json!("Ann")).await.json()["head_seq"], 4);

    let steps = app.all(&path(&thread, "/steps")).await;
    let told: Vec<Value> = steps
        .iter()
        .map(|step| json!([step["kind"], step["block_id"], step["text"], step["run_id"]]))
        .collect();
    let block = |id: &str, text: Value| json!(["context", id, text, null]);
    assert_eq!(
        told,
        [
            block("user", json!("Ann")),
            block("other", json!("x")),
            block("user", Value::Null),
            block("user", json!("Ann")),
        ]
    );
    let read = app.get(&format!("/v1/steps/{}", steps[2]["id"].as_str().unwrap())).await;
    assert_eq!(read.expect(200), steps[2]);
}

#[tokio::test]
async fn blocks_go_with_the_memory_and_come_with_it() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::text("Yes.")]).await;
    let thread = empty_thread(&app).await;
    set(&app, &thread, "user", Some("Ann")).await;
    ask(&app, &model, &thread, "one").await;
    set(&app, &thread, "user", None).await;
    let exported = app.get(&path(&thread, "/memory")).await;
    let steps = exported.json()["steps"].clone();
    assert_eq!(steps[0], json!({ "kind": "context", "id": "user", "text": "Ann" }));
    assert_eq!(steps[4], json!({ "kind": "context", "id": "user", "text": null }));
    let lost = app.get(&path(&thread, "/memory?version=1")).await;
    let problem = lost.expect_problem(422, "validation-failed");
    assert!(pointers(&problem).contains(&"/steps/0") && pointers(&problem).contains(&"/steps/4"));
    let lossy = app.get(&path(&thread, "/memory?version=1&lossy=true")).await.expect(200);
    assert_eq!(lossy["steps"].as_array().unwrap().len(), 3);

    let copy = empty_thread(&app).await;
    let memory = path(&copy, "/memory");
    send_text(&app, ("PUT", &memory), "", &exported.text).await.expect(200);
    assert_eq!(app.get(&memory).await.text, exported.text);
    let (one, other) =
        (ask(&app, &model, &thread, "two").await, ask(&app, &model, &copy, "two").await);
    assert_eq!(one, other);

    assert_eq!(app.delete(&memory).await.status, 204);
    let fresh = ask(&app, &model, &copy, "three").await;
    assert_eq!(contents(&fresh), [("system", "Be kind."), ("user", "three")]);
    // The block of the memory before is no longer there, so it is told whole.
    set(&app, &copy, "user", Some("Ann")).await;
    let told = ask(&app, &model, &copy, "four").await;
    let ann = "<system><context id=\"user\">\nAnn\n</context></system>";
    assert_eq!(contents(&told)[3..], [("user", ann), ("user", "four")]);
}

#[tokio::test]
async fn nothing_is_set_while_a_run_is_active() {
    let app = TestApp::start().await;
    let run = start_endless_run(&app).await;
    let block = format!("/v1/threads/{}/context/user", run["thread_id"].as_str().unwrap());
    let answer = app.put(&block, &json!({ "text": "Ann" })).await;
    assert_eq!(answer.expect_problem(409, "thread-busy")["active_run_id"], run["id"]);
}

#[tokio::test]
async fn a_bad_block_is_refused_at_its_place_and_nothing_is_stored() {
    let app = TestApp::start().await;
    let thread = empty_thread(&app).await;
    let block = path(&thread, "/context/user");
    for (body, slug, pointer) in [
        (json!({}), "validation-failed", "/text"),
        (json!([]), "validation-failed", ""),
        (json!({ "text": 1 }), "validation-failed", "/text"),
        (json!({ "text": " \n" }), "validation-failed", "/text"),
        (json!({ "text": "a\0" }), "text-not-storable", "/text"),
        (json!({ "text": "x", "id": "user" }), "unknown-field", "/id"),
    ] {
        let problem = app.put(&block, &body).await.expect_problem(422, slug);
        assert_eq!(pointers(&problem).first().copied(), Some(pointer), "{problem}");
    }
    let long = "a".repeat(65);
    for name in ["1a", "_a", "User", "a%20b", "a:b", "%C3%A9", "a%00", &long] {
        let other = path(&thread, &format!("/context/{name}"));
        let answer = app.put(&other, &json!({ "text": "x" })).await;
        let problem = answer.expect_problem(400, "invalid-parameter");
        assert_eq!(pointers(&problem), ["block_id"], "{name}");
    }
    assert_eq!(app.all(&path(&thread, "/steps")).await, Vec::<Value>::new());
    assert_eq!(app.get(&path(&thread, "")).await.expect(200), thread);
}

#[tokio::test]
async fn a_block_for_another_state_of_the_thread_is_refused() {
    let app = TestApp::start().await;
    let thread = empty_thread(&app).await;
    let block = path(&thread, "/context/user");
    let seen = app.get(&path(&thread, "")).await.header("etag").to_owned();
    let set = |tag: String, text: &'static str| {
        let body = json!({ "text": text }).to_string();
        let (app, block) = (&app, block.as_str());
        async move { send_text(app, ("PUT", block), &tag, &body).await }
    };
    set(seen.clone(), "Ann").await.expect(200);
    set(seen, "Bob").await.expect_problem(412, "precondition-failed");
    let freely = (0..6).map(|_| set("*".to_owned(), "Eve"));
    let answers = futures::future::join_all(freely).await;
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.json()["head_seq"] == 2));
}

#[tokio::test]
async fn a_block_takes_the_scope_of_the_system_voice_and_a_thread_of_the_tenant() {
    let app = TestApp::start().await;
    let thread = empty_thread(&app).await;
    let block = path(&thread, "/context/user");
    let body = json!({ "text": "Ann" }).to_string();
    let writer = mint_key(&app, "default", &["memory:write", "memory:read"]).await;
    let answer = send_as(&app, &writer, ("PUT", &block), &body).await;
    assert_eq!(answer.expect_problem(403, "insufficient-scope")["required"], "memory:system");
    let step = json!({ "kind": "context", "id": "user", "text": "Ann" });
    let document = json!({ "version": 2, "thread": {}, "steps": [step] }).to_string();
    let answer = send_as(&app, &writer, ("PUT", &path(&thread, "/memory")), &document).await;
    assert_eq!(answer.expect_problem(403, "insufficient-scope")["required"], "memory:system");
    let stranger = mint_key(&app, "other", &["memory:system"]).await;
    for path in [block.as_str(), "/v1/threads/thr_0198f2c4a1b27cde8f00112233445566/context/user"] {
        let answer = send_as(&app, &stranger, ("PUT", path), &body).await;
        answer.expect_problem(404, "not-found");
    }
    let operator = mint_key(&app, "default", &["memory:system"]).await;
    send_as(&app, &operator, ("PUT", &block), &body).await.expect(200);
}
