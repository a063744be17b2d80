//! Chat messages: what is written, what is lost, and that what is not lost comes back.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::cases;
use super::generate::memory;
use crate::domain::memory::{Memory, export_chat, load};

fn of(steps: &Value) -> Memory {
    load(&json!({ "version": 2, "thread": {}, "steps": steps }).to_string()).unwrap()
}

fn told(memory: &Memory) -> Value {
    serde_json::from_str(&export_chat(memory, true).unwrap()).unwrap()
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_history_is_told_and_what_was_told_comes_back_to_the_byte(memory in memory()) {
        let told = export_chat(&memory, true).unwrap();
        if told == "[]" {
            return Ok(());
        }
        let heard = load(&told).unwrap();
        let again = export_chat(&heard, false).unwrap();
        let loaded = load(&again).unwrap();
        prop_assert_eq!(&loaded.steps, &heard.steps);
        prop_assert_eq!(export_chat(&loaded, false).unwrap(), again);
    }

    #[test]
    fn what_is_told_without_loss_comes_back_as_it_was(memory in memory()) {
        match export_chat(&memory, false) {
            Ok(told) if told != "[]" => prop_assert_eq!(load(&told).unwrap().steps, memory.steps),
            Ok(_) => prop_assert!(memory.steps.is_empty()),
            Err(report) => {
                prop_assert!(report.findings.iter().all(|f| f.code == "would_be_lost"));
                prop_assert!(!report.findings.is_empty());
            }
        }
    }
}

#[test]
fn files_stand_where_chat_has_a_place_for_them() {
    let file = |id: &str, media_type: &str, source: Value| json!({ "part_kind": "file", "id": id, "media_type": media_type, "source": source });
    let bytes = || json!({ "source_kind": "base64", "base64": "aGkh" });
    let url = |url: &str| json!({ "source_kind": "url", "url": url });
    let memory = of(&json!([{ "kind": "task", "parts": [
        file("file-1", "image/png", bytes()),
        file("file-2", "image/png", url("https://a.example/b.png")),
        file("file-3", "audio/mpeg", bytes()),
        file("a.pdf", "application/pdf", bytes()),
        file("far.pdf", "application/pdf", url("https://a.example/far.pdf")),
        file("a.txt", "text/plain", json!({ "source_kind": "text", "text": "hi" })),
    ] }]));
    let part = |kind: &str, content: Value| json!({ "type": kind, kind: content });
    assert_eq!(
        told(&memory)[0]["content"],
        json!([
            part("image_url", json!({ "url": "data:image/png;base64,aGkh" })),
            part("image_url", json!({ "url": "https://a.example/b.png" })),
            part("input_audio", json!({ "data": "aGkh", "format": "mp3" })),
            part(
                "file",
                json!({ "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGkh" })
            ),
            part("text", json!("https://a.example/far.pdf")),
            part("text", json!("hi")),
        ])
    );
    let report = export_chat(&memory, false).unwrap_err();
    let pointers: Vec<&str> = report.findings.iter().map(|f| f.pointer.as_str()).collect();
    assert!(!pointers.iter().any(|at| at.starts_with("/steps/0/parts/3")), "{pointers:?}");
    assert!(pointers.iter().any(|at| at.starts_with("/steps/0/parts/4")), "{pointers:?}");
}

#[test]
fn an_answer_is_told_once() {
    let reply = json!({ "kind": "action", "reply": { "state": "complete",
        "parts": [{ "part_kind": "text", "text": "Done." }] } });
    let answer = |text: &str| json!({ "kind": "final", "answer": text });
    let said = json!({ "role": "assistant", "content": "Done." });
    assert_eq!(told(&of(&json!([reply, answer("Done.")]))), json!([said]));
    let other = json!({ "role": "assistant", "content": "{}" });
    assert_eq!(told(&of(&json!([reply, answer("{}")]))), json!([said, other]));
    assert_eq!(told(&of(&json!([answer("Done.")]))), json!([said]));
}

#[test]
fn what_nobody_said_is_left_out_and_what_was_said_otherwise_is_plain() {
    let memory = of(&json!([
        { "kind": "context", "id": "user", "text": "Ann" },
        { "kind": "context", "id": "user", "text": null },
        { "kind": "tools", "added": ["t"] },
        { "kind": "retry", "cause": "no_output", "content": "Please return text." },
        { "kind": "summary", "replaces": "steps", "through_seq": 1, "text": "They met." },
    ]));
    assert_eq!(
        told(&memory),
        json!([
            { "role": "system", "content": "Ann" },
            { "role": "user", "content": "Please return text." },
        ])
    );
    assert_eq!(export_chat(&memory, false).unwrap_err().findings.len(), 5);
}
