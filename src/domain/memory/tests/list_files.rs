//! Files in message lists of others.

use serde_json::{Value, json};

use crate::domain::memory::{export_v2, load};

const FILES: &str = include_str!("../../../../tests/data/memory_pydantic/files.json");

fn steps(text: &str) -> Value {
    let exported = export_v2(&load(text).unwrap());
    assert_eq!(export_v2(&load(&exported).unwrap()), exported);
    serde_json::from_str::<Value>(&exported).unwrap()["steps"].take()
}

/// The finding of a document that has exactly one, which is a value that does not fit.
fn misfit(document: &Value) -> String {
    let error = load(&document.to_string()).unwrap_err();
    let found: Vec<_> =
        error.findings.iter().map(|f| (f.pointer.as_str(), f.code.as_str())).collect();
    let [(pointer, "invalid_value")] = found.as_slice() else { panic!("{found:?}") };
    (*pointer).to_owned()
}

fn text(text: &str) -> Value {
    json!({ "part_kind": "text", "text": text })
}

fn file(id: &str, media_type: &str, source: &Value) -> Value {
    json!({ "part_kind": "file", "id": id, "media_type": media_type, "source": source })
}

fn given(id: &str, media_type: &str, source: &Value) -> Value {
    json!({ "id": id, "media_type": media_type, "source": source })
}

fn base64(data: &str) -> Value {
    json!({ "source_kind": "base64", "base64": data })
}

fn url(url: &str) -> Value {
    json!({ "source_kind": "url", "url": url })
}

#[test]
fn files_of_a_prompt_keep_their_identifiers_types_and_order() {
    let steps = steps(FILES);
    assert_eq!(
        steps[0],
        json!({ "kind": "task", "parts": [
            text("Which harbour is this?"),
            file("9112b8", "image/png", &url("https://example.com/harbour.png")),
            file("chart", "image/png", &base64("iVBO+/8=")),
            file("tides.txt", "text/plain", &base64("bG93")),
            file("e8c1f2", "application/pdf", &url("https://example.com/pilot.pdf")),
            file("f5a66c", "audio/mpeg", &url("https://example.com/horn.mp3")),
        ] })
    );
}

#[test]
fn files_of_a_tool_stand_beside_what_it_said() {
    let steps = steps(FILES);
    let outcomes = steps[1]["outcomes"].as_array().unwrap();
    let snap = given("snap", "image/png", &base64("iVBO+/8="));
    let said: Vec<_> = outcomes.iter().map(|o| (o["output"].clone(), o["files"].clone())).collect();
    let output = |text: &str| json!({ "output_kind": "text", "text": text });
    let list = json!({ "output_kind": "json", "json": [{ "n": 1 }, "two"] });
    assert_eq!(
        said,
        [
            (Value::Null, json!([snap])),
            (output("Here."), json!([snap])),
            (list, json!([snap, snap])),
        ]
    );
}

#[test]
fn files_of_a_chat_message_are_called_by_their_name_or_their_place() {
    let document = json!([
        { "role": "user", "content": [
            { "type": "text", "text": "Look." },
            { "type": "image_url", "image_url": { "url": "https://example.com/a.JPG?x=1", "detail": "low" } },
            { "type": "image_url", "image_url": { "url": "https://example.com/a" } },
            { "type": "image_url", "image_url": { "url": "data:Image/PNG;charset=x;base64,iVBORw==" } },
            { "type": "input_audio", "input_audio": { "data": "AAAA", "format": "mp3" } },
            { "type": "file", "file": { "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE" } },
            { "type": "file", "file": { "file_data": "data:text/plain;base64,aGkh" } },
        ] },
        { "role": "user", "content": [
            { "type": "image_url", "image_url": { "url": "https://example.com/b.png" } },
        ] },
    ]);
    let steps = steps(&document.to_string());
    assert_eq!(
        steps[0]["parts"],
        json!([
            text("Look."),
            file("file-1", "image/jpeg", &url("https://example.com/a.JPG?x=1")),
            file("file-2", "image/x-unknown", &url("https://example.com/a")),
            file("file-3", "image/png", &base64("iVBORw==")),
            file("file-4", "audio/mpeg", &base64("AAAA")),
            file("a.pdf", "application/pdf", &base64("JVBE")),
            file("file-6", "text/plain", &base64("aGkh")),
        ])
    );
    assert_eq!(
        steps[1]["parts"],
        json!([file("file-1", "image/png", &url("https://example.com/b.png"))])
    );
}

#[test]
fn files_of_older_documents_are_named_by_their_place_and_typed_by_their_kind() {
    let document = json!([{ "kind": "request", "parts": [{ "part_kind": "user-prompt", "content": [
        { "kind": "image-url", "url": "https://example.com/a" },
        { "kind": "video-url", "url": "https://example.com/a.webm" },
        { "kind": "document-url", "url": "https://example.com/a" },
        { "kind": "binary", "data": "AAA=", "media_type": "Text/Plain; charset=utf-8", "identifier": null },
    ] }] }]);
    assert_eq!(
        steps(&document.to_string())[0]["parts"],
        json!([
            file("file-1", "image/x-unknown", &url("https://example.com/a")),
            file("file-2", "video/webm", &url("https://example.com/a.webm")),
            file("file-3", "application/octet-stream", &url("https://example.com/a")),
            file("file-4", "text/plain", &base64("AAA=")),
        ])
    );
}

#[test]
fn what_a_file_cannot_be_is_refused_at_its_member() {
    let chat = |part: Value| misfit(&json!([{ "role": "user", "content": [part] }]));
    let image = |url: &str| chat(json!({ "type": "image_url", "image_url": { "url": url } }));
    assert_eq!(image("http://example.com/a.png"), "/0/content/0/image_url/url");
    assert_eq!(image("data:image/png;base64,x"), "/0/content/0/image_url/url");
    let part = |file: Value| chat(json!({ "type": "file", "file": file }));
    let data = "data:text/plain;base64,aGkh";
    assert_eq!(part(json!({ "file_data": "aGkh" })), "/0/content/0/file/file_data");
    assert_eq!(
        part(json!({ "filename": "x".repeat(257), "file_data": data })),
        "/0/content/0/file/filename"
    );
    let audio =
        json!({ "type": "input_audio", "input_audio": { "data": "AAAA", "format": "A/B" } });
    assert_eq!(chat(audio), "/0/content/0/input_audio/format");
    let content = |piece: Value| {
        misfit(&json!([{ "kind": "request", "parts": [
            { "part_kind": "user-prompt", "content": [piece] }] }]))
    };
    for (piece, member) in [
        (json!({ "kind": "image-url", "url": "ftp://x" }), "url"),
        (json!({ "kind": "binary", "data": "?", "media_type": "a/b" }), "data"),
        (json!({ "kind": "binary", "data": "AAAA", "media_type": "png" }), "media_type"),
        (json!({ "kind": "binary", "data": "AAAA", "identifier": "" }), "identifier"),
    ] {
        assert_eq!(content(piece), format!("/0/parts/0/content/0/{member}"));
    }
}

#[test]
fn files_that_are_not_in_the_document_are_refused() {
    let call = json!({ "part_kind": "tool-call", "tool_name": "t", "tool_call_id": "a" });
    let pointers = |document: &Value| -> Vec<(String, String)> {
        let error = load(&document.to_string()).unwrap_err();
        error.findings.into_iter().map(|f| (f.pointer, f.code)).collect()
    };
    let returned = |content: &Value, outcome: &str| {
        let part = json!({ "part_kind": "tool-return", "tool_name": "t", "tool_call_id": "a",
                           "content": content, "outcome": outcome });
        pointers(
            &json!([{ "kind": "response", "parts": [call] }, { "kind": "request", "parts": [part] }]),
        )
    };
    let unsupported = |pointer: &str| vec![(pointer.to_owned(), "unsupported_content".to_owned())];
    let bytes = json!({ "kind": "binary", "data": "AAAA", "media_type": "image/png" });
    assert_eq!(returned(&json!(["x", bytes]), "failed"), unsupported("/1/parts/0/content"));
    let uploaded = json!({ "kind": "uploaded-file", "file_id": "f" });
    assert_eq!(returned(&json!(["x", uploaded]), "success"), unsupported("/1/parts/0/content/1"));
    let stored = json!({ "type": "file", "file": { "file_id": "f" } });
    assert_eq!(
        pointers(&json!([{ "role": "user", "content": [stored] }])),
        unsupported("/0/content/0/file/file_id")
    );
}
