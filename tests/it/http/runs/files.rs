//! Files that a run is given, as a model is sent them.

use serde_json::{Value, json};

use crate::http::pointers;
use crate::support::{Answer, FakeModel, ModelReply, TestApp};

/// A file of a run's input.
fn file(id: &str, media_type: &str, source: &Value) -> Value {
    json!({ "part_kind": "file", "id": id, "media_type": media_type, "source": source })
}

fn as_text(text: &str) -> Value {
    json!({ "source_kind": "text", "text": text })
}

fn as_base64(base64: &str) -> Value {
    json!({ "source_kind": "base64", "base64": base64 })
}

fn as_url(url: &str) -> Value {
    json!({ "source_kind": "url", "url": url })
}

/// Runs an agent whose model has this profile on this input; answers the run, and the content of the
/// user's message that the model was sent.
async fn ask(app: &TestApp, profile: &Value, input: &Value) -> (Value, Value) {
    let model = FakeModel::start([ModelReply::text("Seen.")]).await;
    let mut spec = model.spec(false);
    spec["profile"] = profile.clone();
    let body = json!({ "agent": { "name": "a", "model": spec }, "input": input });
    let run = app.run_body(&body).await;
    assert_eq!(run["answer"], "Seen.", "{run}");
    let messages = model.requests()[0].messages();
    let [message] = messages.as_slice() else { panic!("{messages:?}") };
    assert_eq!(message["role"], "user");
    (run, message["content"].clone())
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn left_out(id: &str, media_type: &str) -> Value {
    text(&format!("[The file {id} of type {media_type} is left out: this model does not read it.]"))
}

#[tokio::test]
async fn text_is_inlined_between_markers_and_opens_no_frame() {
    let app = TestApp::start().await;
    let input = json!([
        { "part_kind": "text", "text": "Read <system>these</system>." },
        file("notes \"1\".txt", "text/plain", &as_text("a <b>\n</SYSTEM > <tool_result>")),
        file("rows.csv", "text/csv", &as_base64("YSxiCjEsMgo=")),
        file("odd\nname", "application/x-odd", &as_text("")),
    ]);
    let (run, content) = ask(&app, &json!({}), &input).await;
    assert_eq!(
        content,
        json!([
            text("Read <system>these</system>."),
            text(concat!(
                "-----BEGIN FILE id=\"notes &quot;1&quot;.txt\" type=\"text/plain\"-----\n",
                "a <b>\n&lt;/SYSTEM > &lt;tool_result>\n",
                "-----END FILE id=\"notes &quot;1&quot;.txt\"-----"
            )),
            text(
                "-----BEGIN FILE id=\"rows.csv\" type=\"text/csv\"-----\na,b\n1,2\n\n-----END FILE id=\"rows.csv\"-----"
            ),
            text(
                "-----BEGIN FILE id=\"odd\u{fffd}name\" type=\"application/x-odd\"-----\n\n-----END FILE id=\"odd\u{fffd}name\"-----"
            ),
        ])
    );
    // What is stored is what was given.
    assert_eq!(run["input"], input);
    let steps = app.steps(run["id"].as_str().unwrap()).await;
    assert_eq!(steps[0]["parts"], input);
}

#[tokio::test]
async fn a_lone_text_file_is_a_plain_text_which_every_server_understands() {
    let app = TestApp::start().await;
    let input = json!([file("a.txt", "text/plain", &as_text("hi"))]);
    let (_, content) = ask(&app, &json!({}), &input).await;
    assert_eq!(
        content,
        "-----BEGIN FILE id=\"a.txt\" type=\"text/plain\"-----\nhi\n-----END FILE id=\"a.txt\"-----"
    );
}

fn pictures_and_pages() -> Value {
    json!([
        file("far.png", "image/png", &as_url("https://files.example/far.png")),
        file("near.png", "image/png", &as_base64("iVBORw==")),
        file("a.pdf", "application/pdf", &as_base64("JVBERi0=")),
        file("far.pdf", "application/pdf", &as_url("https://files.example/far.pdf")),
        file("horn.wav", "audio/wav", &as_base64("UklGRg==")),
        file("broken.txt", "text/plain", &as_base64("/w==")),
        { "part_kind": "text", "text": "What are these?" },
    ])
}

#[tokio::test]
async fn a_model_that_reads_images_and_documents_gets_them_as_they_are() {
    let app = TestApp::start().await;
    let image = |url: &str| json!({ "type": "image_url", "image_url": { "url": url } });
    let document = |name: &str, data: &str| json!({ "type": "file", "file": { "filename": name, "file_data": data } });
    let (_, content) =
        ask(&app, &json!({ "images": true, "documents": true }), &pictures_and_pages()).await;
    assert_eq!(
        content,
        json!([
            image("https://files.example/far.png"),
            image("data:image/png;base64,iVBORw=="),
            document("a.pdf", "data:application/pdf;base64,JVBERi0="),
            // No wire of this version takes a document by its address.
            left_out("far.pdf", "application/pdf"),
            document("horn.wav", "data:audio/wav;base64,UklGRg=="),
            document("broken.txt", "data:text/plain;base64,/w=="),
            text("What are these?"),
        ])
    );
}

#[tokio::test]
async fn a_model_that_reads_neither_is_told_what_was_left_out() {
    let app = TestApp::start().await;
    let (_, content) = ask(&app, &json!({}), &pictures_and_pages()).await;
    assert_eq!(
        content,
        json!([
            left_out("far.png", "image/png"),
            left_out("near.png", "image/png"),
            left_out("a.pdf", "application/pdf"),
            left_out("far.pdf", "application/pdf"),
            left_out("horn.wav", "audio/wav"),
            left_out("broken.txt", "text/plain"),
            text("What are these?"),
        ])
    );
    // Each kind is a fact of its own.
    let (_, content) = ask(&app, &json!({ "images": true }), &pictures_and_pages()).await;
    assert_eq!(content[1]["type"], "image_url");
    assert_eq!(content[2], left_out("a.pdf", "application/pdf"));
}

async fn refused(app: &TestApp, input: &Value) -> Answer {
    let model = json!({ "provider": "scripted", "name": "m", "script": [{ "text": "Hi." }] });
    app.post("/v1/runs", &json!({ "agent": { "name": "a", "model": model }, "input": input })).await
}

#[tokio::test]
async fn every_flaw_of_a_file_is_told_at_its_place() {
    let app = TestApp::start().await;
    let input = json!([
        { "part_kind": "text", "text": "Look." },
        file("x", "Image/PNG", &as_base64("iVBORw==")),
        file("x", "image/png", &as_base64("not base64")),
        file("x", "image/png", &as_base64("aGk=")),
        file("x", "image/svg+xml", &as_url("https://files.example/a.svg")),
    ]);
    let problem = refused(&app, &input).await.expect_problem(422, "validation-failed");
    assert_eq!(
        pointers(&problem),
        [
            "/input/1/media_type",
            "/input/2/source/base64",
            "/input/3/media_type",
            "/input/4/media_type",
        ]
    );
    for url in [
        "http://files.example/a.png",
        "file:///etc/passwd",
        "data:image/png;base64,iVBORw==",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/a.png",
    ] {
        let answer = refused(&app, &json!([file("x", "image/png", &as_url(url))])).await;
        let problem = answer.expect_problem(422, "egress-denied");
        assert_eq!(pointers(&problem), ["/input/0/source/url"], "{url}");
    }
    for (file, pointer) in [
        (file("", "a/b", &as_text("x")), "/input/0/id"),
        (file(&"x".repeat(257), "a/b", &as_text("x")), "/input/0/id"),
        (file("x", "a/b", &json!({ "source_kind": "disk" })), "/input/0/source/source_kind"),
        (file("x", "a/b", &json!({ "source_kind": "text" })), "/input/0/source/text"),
        (
            file("x", "a/b", &json!({ "source_kind": "text", "text": "", "url": "" })),
            "/input/0/source/url",
        ),
        (json!({ "part_kind": "file", "id": "x", "media_type": "a/b" }), "/input/0/source"),
    ] {
        let answer = refused(&app, &json!([file])).await;
        assert_eq!((answer.status, pointers(&answer.json())), (422, vec![pointer]), "{file}");
    }
}

#[tokio::test]
async fn what_cannot_be_stored_is_refused_in_names_and_texts() {
    let app = TestApp::start().await;
    for (file, pointer) in [
        (file("a\0b", "text/plain", &as_text("x")), "/input/0/id"),
        (file("x", "text/plain", &as_text("a\0b")), "/input/0/source/text"),
    ] {
        let answer = refused(&app, &json!([file])).await;
        assert_eq!(answer.status, 422, "{}", answer.text);
        assert_eq!(pointers(&answer.json()), [pointer]);
    }
}

#[tokio::test]
async fn a_file_is_as_large_as_the_body_that_brings_it_may_be() {
    let content = "A".repeat(4 * 1024 * 1024);
    let input = json!([file("big.bin", "application/octet-stream", &as_base64(&content))]);
    let app = TestApp::start().await;
    refused(&app, &input).await.expect_problem(413, "body-too-large");
    let app = TestApp::with(&[("AGENTLING_BODY_LIMIT_BYTES", "6000000")]).await;
    let run = refused(&app, &input).await.expect(201);
    assert_eq!(run["input"], input);
}
