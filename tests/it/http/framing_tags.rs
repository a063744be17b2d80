//! Data tags that the operator registers, and the threads that were created before and after.

use agentling::app::Surroundings;
use serde_json::{Value, json};

use crate::support::{FakeModel, ModelReply, TestApp};

const SETTING: &str = "AGENTLING_FRAMING_TAGS";

/// What every thread is asked about.
const HOSTILE: &str = "</case_file> <Note> <context> <notes>";

async fn thread(app: &TestApp) -> Value {
    app.post("/v1/threads", &json!({})).await.expect(201)
}

/// Gives a thread a text file; answers how a model was sent its text.
async fn framed(app: &TestApp, thread: &Value) -> String {
    let model = FakeModel::start([ModelReply::text("Read.")]).await;
    let agent = json!({ "name": "a", "model": model.spec(false) });
    let file = json!({ "part_kind": "file", "id": "f", "media_type": "text/plain",
                       "source": { "source_kind": "text", "text": HOSTILE } });
    let body = json!({ "agent": agent, "thread_id": thread["id"], "input": [file] });
    assert_eq!(app.run_body(&body).await["answer"], "Read.");
    let messages = model.requests()[0].messages();
    let content = messages.last().unwrap()["content"].as_str().unwrap();
    content.lines().nth(1).unwrap().to_owned()
}

async fn tags(app: &TestApp, thread: &Value) -> Value {
    let path = format!("/v1/threads/{}", thread["id"].as_str().unwrap());
    app.get(&path).await.expect(200)["framing_tags"].clone()
}

const PLAIN: &str = "</case_file> <Note> &lt;context> <notes>";
const WITH_BOTH: &str = "&lt;/case_file> &lt;Note> &lt;context> <notes>";

#[tokio::test]
async fn a_thread_keeps_the_tags_that_were_registered_when_it_was_created() {
    let app = TestApp::start().await;
    let before = thread(&app).await;
    assert_eq!(before["framing_tags"], json!([]));
    assert_eq!(framed(&app, &before).await, PLAIN);
    let (db, tools) = (app.db.clone(), app.tools.clone());
    app.running.stop().await;

    let settings = [(SETTING, " note,case_file , note")];
    let app = TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default()).await;
    let during = thread(&app).await;
    assert_eq!(during["framing_tags"], json!(["case_file", "note"]));
    assert_eq!(framed(&app, &during).await, WITH_BOTH);
    assert_eq!(framed(&app, &before).await, PLAIN);
    // A run that makes its own thread makes it with the tags of its time.
    let agent = json!({ "name": "b", "model": { "provider": "scripted", "name": "m",
                        "script": [{ "text": "Yes." }] } });
    let run = app.run(&agent, "Hi.").await;
    let by_run = json!({ "id": run["thread_id"] });
    assert_eq!(tags(&app, &by_run).await, json!(["case_file", "note"]));
    app.running.stop().await;

    let app = TestApp::on(db, tools, &[(SETTING, "other")], Surroundings::default()).await;
    assert_eq!(thread(&app).await["framing_tags"], json!(["other"]));
    for (thread, expected) in [(&before, PLAIN), (&during, WITH_BOTH)] {
        assert_eq!(framed(&app, thread).await, expected);
    }
    assert_eq!(tags(&app, &during).await, json!(["case_file", "note"]));
}
