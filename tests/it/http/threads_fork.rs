//! `POST /v1/threads/{thread_id}/fork`.

use serde_json::{Value, json};

use super::{pointers, send_as, speaker, start_endless_run};
use crate::support::{
    FakeModel, ModelReply, TestApp, assert_invariants, count, mint_key, requests_of, tool,
};

fn path(thread: &Value) -> String {
    format!("/v1/threads/{}", thread.as_str().unwrap())
}

async fn fork(app: &TestApp, thread: &Value, body: &Value) -> Value {
    app.post(&format!("{}/fork", path(thread)), body).await.expect(201)
}

async fn texts(app: &TestApp, thread: &Value) -> Vec<Value> {
    let steps = app.all(&format!("{}/steps", path(thread))).await;
    let text = |step: &Value| match step["kind"].as_str().unwrap() {
        "task" => step["parts"][0]["text"].clone(),
        "action" => step["reply"]["parts"][0]["text"].clone(),
        "final" => step["answer"].clone(),
        _ => step["text"].clone(),
    };
    steps.iter().map(text).collect()
}

#[tokio::test]
async fn a_fork_shares_the_steps_as_they_are_and_goes_its_own_way() {
    let app = TestApp::start().await;
    let replies = ["one", "two", "three"].map(ModelReply::text);
    let model = FakeModel::start(replies).await;
    let agent = json!({ "name": "a", "model": model.spec(true) });
    let run = app.run(&agent, "first").await;
    let thread = &run["thread_id"];
    let on = |thread: &Value, input: &str| json!({ "agent": agent, "thread_id": thread, "input": input });
    app.run_body(&on(thread, "second")).await;
    let before = app.all(&format!("{}/steps", path(thread))).await;

    let made = app.post(&format!("{}/fork", path(thread)), &json!({ "at_seq": 3 })).await;
    assert_eq!(made.header("etag"), "\"1-3\"");
    let location = made.header("location").to_owned();
    let forked = made.expect(201);
    assert_eq!(app.get(&location).await.expect(200), forked);
    assert_eq!(forked["forked_from"], json!({ "thread_id": thread, "at_seq": 3 }));
    assert_eq!((&forked["head_seq"], &forked["memory_from"]), (&json!(3), &json!(1)));
    let steps = app.all(&format!("{location}/steps")).await;
    assert_eq!(steps, before[..3]);
    // However long what is shared is, nothing of it is stored again.
    assert_eq!(count(&app.db, "SELECT count(*) FROM step").await, 6);
    assert_eq!(count(&app.db, "SELECT count(*) FROM thread_segment").await, 1);

    let third = app.run_body(&on(&forked["id"], "third")).await;
    assert_eq!(third["answer"], "three");
    assert_eq!(model.requests()[2].said_by("user"), ["first", "third"]);
    let expected = ["first", "one", "one", "third", "three", "three"];
    assert_eq!(texts(&app, &forked["id"]).await, expected);
    assert_eq!(app.all(&format!("{}/steps", path(thread))).await, before);
    assert_eq!(app.get(&path(thread)).await.json()["forked_from"], Value::Null);
    let runs = app.all("/v1/runs").await;
    assert_eq!(runs.iter().filter(|run| run["thread_id"] == forked["id"]).count(), 1);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn an_edit_is_seen_in_the_fork_and_in_its_forks_alone() {
    let app = TestApp::start().await;
    let model = FakeModel::start(["one", "two", "three"].map(ModelReply::text)).await;
    let agent = json!({ "name": "a", "model": model.spec(true) });
    let run = app.run(&agent, "my name is Ann").await;
    let thread = &run["thread_id"];
    let said = json!({ "kind": "system", "text": "Be kind." });
    app.post(&format!("{}/steps", path(thread)), &said).await.expect(201);
    let requests = requests_of(&app, &run).await;

    let edits = json!([
        { "seq": 4, "content": "Be brief." },
        { "seq": 1, "parts": [{ "part_kind": "text", "text": "my name is Bob" }] },
    ]);
    let edited = fork(&app, thread, &json!({ "at_seq": 4, "edits": edits })).await;
    let expected = ["my name is Bob", "one", "one", "Be brief."];
    assert_eq!(texts(&app, &edited["id"]).await, expected);
    assert_eq!(texts(&app, thread).await, ["my name is Ann", "one", "one", "Be kind."]);
    let steps = app.all(&format!("{}/steps", path(&edited["id"]))).await;
    assert_eq!((&steps[0]["thread_id"], &steps[1]["thread_id"]), (&edited["id"], thread));
    let step = format!("/v1/steps/{}", steps[0]["id"].as_str().unwrap());
    assert_eq!(app.get(&step).await.expect(200), steps[0]);

    let on = json!({ "agent": agent, "thread_id": edited["id"], "input": "who am I?" });
    app.run_body(&on).await;
    let heard = model.requests()[1].said_by("user");
    assert_eq!(heard, ["my name is Bob", "<system>Be brief.</system>", "who am I?"]);
    let again = fork(&app, &edited["id"], &json!({ "at_seq": 3 })).await;
    assert_eq!(texts(&app, &again["id"]).await, expected[..3]);
    let twice = json!({ "at_seq": 3, "edits": [{ "seq": 1, "content": "my name is Cid" }] });
    let twice = fork(&app, &edited["id"], &twice).await;
    assert_eq!(texts(&app, &twice["id"]).await, ["my name is Cid", "one", "one"]);
    // What was sent is what was sent.
    assert_eq!(requests_of(&app, &run).await, requests);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_step_that_was_erased_cannot_be_said_otherwise() {
    let app = TestApp::start().await;
    let agent = speaker("a", "Hello.");
    let run = app.run(&agent, "first").await;
    let thread = &run["thread_id"];
    app.run_body(&json!({ "agent": agent, "thread_id": thread, "input": "second" })).await;
    let deleted = app.delete(&format!("/v1/runs/{}", run["id"].as_str().unwrap())).await;
    assert_eq!(deleted.status, 204);
    let erased = json!({ "at_seq": 4, "edits": [{ "seq": 1, "content": "other" }] });
    let refused = app.post(&format!("{}/fork", path(thread)), &erased).await;
    let problem = refused.expect_problem(422, "validation-failed");
    assert_eq!(problem["errors"][0]["pointer"], "/edits/0/seq");
    fork(&app, thread, &json!({ "at_seq": 4, "edits": [{ "seq": 4, "content": "other" }] })).await;
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn only_what_callers_said_can_be_said_otherwise() {
    let app = TestApp::start().await;
    let run = app.run(&speaker("a", "Hello."), "hi").await;
    let thread = &run["thread_id"];
    let said = json!({ "kind": "system", "text": "Be kind." });
    app.post(&format!("{}/steps", path(thread)), &said).await.expect(201);
    let refused = |body: Value, places: &'static [&'static str]| {
        let (app, at) = (&app, format!("{}/fork", path(thread)));
        async move {
            let problem = app.post(&at, &body).await.expect_problem(422, "validation-failed");
            assert_eq!(pointers(&problem), places, "{problem}");
        }
    };
    let edit = |edit: Value| json!({ "at_seq": 4, "edits": [edit] });
    refused(json!({ "at_seq": 0 }), &["/at_seq"]).await;
    refused(json!({ "at_seq": 5 }), &["/at_seq"]).await;
    refused(edit(json!({ "seq": 2, "content": "x" })), &["/edits/0"]).await;
    refused(edit(json!({ "seq": 3, "content": "x" })), &["/edits/0"]).await;
    let parts = json!([{ "part_kind": "text", "text": "x" }]);
    refused(edit(json!({ "seq": 4, "parts": parts })), &["/edits/0"]).await;
    refused(edit(json!({ "seq": 1, "parts": parts, "content": "x" })), &["/edits/0"]).await;
    refused(edit(json!({ "seq": 5, "content": "x" })), &["/edits/0/seq"]).await;
    refused(edit(json!({ "seq": 1, "content": " " })), &["/edits/0/content"]).await;
    refused(edit(json!({ "seq": 1, "parts": [] })), &["/edits/0/parts"]).await;
    let twice = json!([{ "seq": 1, "content": "x" }, { "seq": 1, "content": "y" }]);
    refused(json!({ "at_seq": 4, "edits": twice }), &["/edits/1/seq"]).await;
    let source = json!({ "source_kind": "url", "url": "https://169.254.169.254/a.png" });
    let file =
        json!([{ "part_kind": "file", "id": "x", "media_type": "image/png", "source": source }]);
    let inward = edit(json!({ "seq": 1, "parts": file }));
    let problem = app.post(&format!("{}/fork", path(thread)), &inward).await;
    let problem: Value = problem.expect_problem(422, "egress-denied");
    assert_eq!(pointers(&problem), ["/edits/0/parts/0/source/url"]);

    let key = mint_key(&app, "default", &["memory:write"]).await;
    let at = format!("{}/fork", path(thread));
    let send = |body: Value| {
        let (app, key, at) = (&app, &key, &at);
        async move { send_as(app, key, ("POST", at), &body.to_string()).await }
    };
    let forbidden = send(edit(json!({ "seq": 4, "content": "Obey." }))).await;
    assert_eq!(forbidden.expect_problem(403, "insufficient-scope")["required"], "memory:system");
    send(edit(json!({ "seq": 1, "content": "x" }))).await.expect(201);
}

#[tokio::test]
async fn a_thread_is_forked_behind_the_calls_under_way_and_not_among_them() {
    let app = TestApp::start().await;
    let model =
        FakeModel::start([ModelReply::call("echo", "{}"), ModelReply::call("hang", "{}")]).await;
    app.tools.hold("hang");
    let open = json!({ "type": "object", "additionalProperties": true });
    let tools = ["echo", "hang"].map(|name| tool(&app.tools, name, "pure", &open));
    let agent = json!({ "name": "a", "model": model.spec(true), "tools": tools });
    let run = app.start_run(&json!({ "agent": agent, "input": "go" })).await;
    app.tools.wait_for(2).await;
    let at = format!("{}/fork", path(&run["thread_id"]));
    let busy = app.post(&at, &json!({ "at_seq": 3 })).await.expect_problem(409, "thread-busy");
    assert_eq!(busy["active_run_id"], run["id"]);
    let forked = app.post(&at, &json!({ "at_seq": 2 })).await.expect(201);
    // The fork is not busy.
    let speaker = speaker("b", "Hello.");
    let on = json!({ "agent": speaker, "thread_id": forked["id"], "input": "instead" });
    assert_eq!(app.run_body(&on).await["answer"], "Hello.");
    let cancel = format!("/v1/runs/{}/cancel", run["id"].as_str().unwrap());
    app.post(&cancel, &json!({})).await;
    assert_eq!(app.ended(run["id"].as_str().unwrap()).await["status"], "cancelled");
    app.post(&at, &json!({ "at_seq": 3 })).await.expect(201);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_thread_whose_steps_are_shared_stays_until_its_forks_are_deleted() {
    let app = TestApp::start().await;
    let run = app.run(&speaker("a", "Hello."), "hi").await;
    let thread = &run["thread_id"];
    let one = fork(&app, thread, &json!({ "at_seq": 3 })).await;
    let of_one = fork(&app, &one["id"], &json!({ "at_seq": 2 })).await;
    let problem = app.delete(&path(thread)).await.expect_problem(409, "in-use");
    assert_eq!(problem["references"], json!([one["id"], of_one["id"]]));
    // The fork in between stores nothing that its own fork is made of.
    app.delete(&path(&one["id"])).await.expect(204);
    app.get(&path(&one["id"])).await.expect_problem(410, "gone");
    assert_eq!(texts(&app, &of_one["id"]).await, ["hi", "Hello."]);
    app.delete(&path(thread)).await.expect_problem(409, "in-use");
    app.delete(&path(&of_one["id"])).await.expect(204);
    app.delete(&path(thread)).await.expect(204);
    assert_eq!(count(&app.db, "SELECT count(*) FROM step").await, 0);
}

#[tokio::test]
async fn a_fork_remembers_what_its_thread_did_at_that_step() {
    let app = TestApp::start().await;
    let agent = speaker("a", "Hello.");
    let run = app.run(&agent, "hi").await;
    let thread = &run["thread_id"];
    let again = json!({ "agent": agent, "thread_id": thread, "input": "afresh", "reset": true });
    app.run_body(&again).await;
    app.delete(&format!("{}/memory", path(thread))).await;
    for (at_seq, from) in [(3, 1), (4, 4), (6, 4)] {
        let forked = fork(&app, thread, &json!({ "at_seq": at_seq })).await;
        assert_eq!(forked["memory_from"], from, "at {at_seq}");
    }
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_block_of_context_that_a_fork_shares_is_not_said_again() {
    let app = TestApp::start().await;
    let run = app.run(&speaker("a", "Hello."), "hi").await;
    let thread = &run["thread_id"];
    app.put(&format!("{}/context/user", path(thread)), &json!({ "text": "Ann" })).await.expect(200);
    let forked = fork(&app, thread, &json!({ "at_seq": 4 })).await;
    let block = format!("{}/context/user", path(&forked["id"]));
    let same = app.put(&block, &json!({ "text": "Ann" })).await.expect(200);
    assert_eq!(same["head_seq"], 4);
    let other = app.put(&block, &json!({ "text": "Bob" })).await.expect(200);
    assert_eq!(other["head_seq"], 5);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_thread_under_way_is_forked_at_an_earlier_step() {
    let app = TestApp::start().await;
    let run = start_endless_run(&app).await;
    let forked = fork(&app, &run["thread_id"], &json!({ "at_seq": 1 })).await;
    assert_eq!(texts(&app, &forked["id"]).await, ["wait"]);
    let cancel = format!("/v1/runs/{}/cancel", run["id"].as_str().unwrap());
    app.post(&cancel, &json!({})).await;
    app.ended(run["id"].as_str().unwrap()).await;
    assert_eq!(texts(&app, &forked["id"]).await, ["wait"]);
    assert_invariants(&app.db).await;
}
