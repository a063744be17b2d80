//! Messages: who speaks when, and what blocks look like.

use serde_json::{Value, json};

use super::{
    CLAUDE, LLAMA, NOVA_2, assistant, body, call, messages, prompt, result, results, said, text,
    user,
};
use crate::domain::file::{FileBytes, FilePart, FileSource};
use crate::domain::ledger::Origin;
use crate::render::prompt::{Block, PromptTurn};

const PALMYRA: &str = "us.writer.palmyra-x5-v1:0";

fn file(id: &str, media_type: &str) -> Block {
    let source = FileSource::Base64(FileBytes { base64: "aGk=".to_owned() });
    let file = FilePart { id: id.to_owned(), media_type: media_type.to_owned(), source };
    Block::File { file, origin: Origin::default() }
}

/// Who speaks in a message, and what its blocks are or which text they are.
fn outline(turns: Vec<PromptTurn>, model: &str) -> Vec<String> {
    let of_block = |block: &Value| {
        let (name, value) = block.as_object().unwrap().iter().next().unwrap();
        value.as_str().unwrap_or(name).to_owned()
    };
    let of_message = |message: &Value| {
        let blocks: Vec<String> =
            message["content"].as_array().unwrap().iter().map(of_block).collect();
        format!("{}: {}", message["role"].as_str().unwrap(), blocks.join(" "))
    };
    messages(turns, model).as_array().unwrap().iter().map(of_message).collect()
}

#[test]
fn each_block_has_its_form() {
    let thinking = Block::Thinking {
        text: "hm".into(),
        signature: Some("s".to_owned()),
        id: None,
        echo: None,
    };
    let redacted =
        Block::RedactedThinking { data: "ZGF0YQ==".to_owned(), origin: Origin::default() };
    let raw = json!({"toolUse": {"toolUseId": "x", "type": "server_tool_use"}});
    let opaque = Block::Opaque { raw: raw.clone(), origin: Origin::default() };
    let cited =
        Block::Said { text: "so".into(), echo: Some(json!({"citations": [{"title": "t"}]})) };
    let turns = vec![
        user(vec![text("hi")]),
        assistant(vec![thinking, redacted, opaque, cited, said("ok"), call("1"), call("2")]),
        results(vec![result("1", "yes", false), result("2", "no", true)]),
    ];
    let input = json!({"b": 1.0, "a": 2});
    let expected = json!([
        {"role": "user", "content": [{"text": "hi"}]},
        {"role": "assistant", "content": [
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
            {"reasoningContent": {"redactedContent": "ZGF0YQ=="}},
            raw,
            {"citationsContent": {"content": [{"text": "so"}], "citations": [{"title": "t"}]}},
            {"text": "ok"},
            {"toolUse": {"toolUseId": "1", "name": "f", "input": input}},
            {"toolUse": {"toolUseId": "2", "name": "f", "input": input}},
        ]},
        {"role": "user", "content": [
            {"toolResult":
                {"toolUseId": "1", "content": [{"text": "yes"}], "status": "success"}},
            {"toolResult": {"toolUseId": "2", "content": [{"text": "no"}], "status": "error"}},
        ]},
    ]);
    assert_eq!(messages(turns, CLAUDE), expected);
}

#[test]
fn neighbouring_turns_of_one_speaker_are_one_message() {
    let turns = vec![
        user(vec![text("a")]),
        user(vec![text("b")]),
        assistant(vec![said("c"), call("1")]),
        results(vec![result("1", "d", false)]),
        user(vec![text("e")]),
    ];
    let expected = ["user: a b", "assistant: c toolUse", "user: toolResult e"];
    assert_eq!(outline(turns, CLAUDE), expected);
}

#[test]
fn blank_text_is_never_sent() {
    let turns = vec![
        user(vec![text("a"), text(" \n")]),
        assistant(vec![said("\t")]),
        user(vec![text("b")]),
        assistant(vec![call("1")]),
        results(vec![result("1", "  ", false)]),
    ];
    let sent = messages(turns, CLAUDE);
    assert_eq!(sent[0], json!({"role": "user", "content": [{"text": "a"}, {"text": "b"}]}));
    assert_eq!(sent[2]["content"][0]["toolResult"]["content"], json!([{"text": "."}]));
    let mut blank = prompt(vec![user(vec![text("a")])]);
    blank.system = Some(" ".into());
    assert_eq!(body(&blank, CLAUDE).get("system"), None);
    blank.system = Some("be".into());
    assert_eq!(body(&blank, CLAUDE)["system"], json!([{"text": "be"}]));
}

#[test]
fn a_conversation_begins_with_the_user_where_it_has_to() {
    let turns = || vec![assistant(vec![said("a")]), user(vec![text("b")])];
    assert_eq!(outline(turns(), CLAUDE), ["assistant: a", "user: b"]);
    assert_eq!(outline(turns(), NOVA_2), ["user: .", "assistant: a", "user: b"]);
}

#[test]
fn what_may_not_stand_beside_results_is_parted_from_them() {
    let turns = |more: Block| {
        vec![
            user(vec![text("a")]),
            assistant(vec![call("1")]),
            results(vec![result("1", "b", false)]),
            user(vec![text("see"), more]),
            user(vec![text("c")]),
        ]
    };
    let (start, image) = (["user: a", "assistant: toolUse"], || file("p", "image/png"));
    let pdf = || file("d", "application/pdf");
    for (model, more, rest) in [
        (CLAUDE, image(), &["user: toolResult see image c"][..]),
        (CLAUDE, pdf(), &["user: toolResult", "assistant: .", "user: see document c"]),
        (NOVA_2, pdf(), &["user: toolResult see document c"]),
        (LLAMA, image(), &["user: toolResult", "assistant: .", "user: see image c"]),
        (PALMYRA, text("x"), &["user: toolResult", "assistant: .", "user: see x c"]),
        (
            "mistral.mistral-large-2402-v1:0",
            text("x"),
            &["user: toolResult", "assistant: .", "user: see x c"],
        ),
    ] {
        assert_eq!(outline(turns(more), model), [&start[..], rest].concat(), "{model}");
    }
}

#[test]
fn palmyra_is_told_of_failures_in_the_text_alone() {
    let turns = vec![
        user(vec![text("a")]),
        assistant(vec![call("1")]),
        results(vec![result("1", "no", true)]),
    ];
    let sent = &messages(turns, PALMYRA)[2]["content"][0]["toolResult"];
    assert_eq!(*sent, json!({"toolUseId": "1", "content": [{"text": "no"}]}));
}

#[test]
fn documents_stand_beside_a_text_and_have_names_of_their_own() {
    let turns = vec![user(vec![file("a.pdf", "application/pdf"), file("a/pdf", "text/csv")])];
    let source = json!({"bytes": "aGk="});
    let expected = json!([{"role": "user", "content": [
        {"text": "."},
        {"document": {"format": "pdf", "name": "a pdf", "source": source}},
        {"document": {"format": "csv", "name": "a pdf 2", "source": source}},
    ]}]);
    assert_eq!(messages(turns, CLAUDE), expected);
    let turns = vec![
        user(vec![text("see")]),
        user(vec![file("a", "application/pdf"), file("b", "image/jpeg")]),
    ];
    let expected = json!([{"role": "user", "content": [
        {"text": "see"},
        {"document": {"format": "pdf", "name": "a", "source": source}},
        {"image": {"format": "jpeg", "source": source}},
    ]}]);
    assert_eq!(messages(turns, CLAUDE), expected);
}

#[test]
fn the_user_stands_behind_every_turn_of_the_model() {
    let turns = vec![user(vec![text("a")]), assistant(vec![said("b")]), assistant(vec![said("c")])];
    let filler = json!({"role": "user", "content": [{"text": "."}]});
    for model in [CLAUDE, LLAMA] {
        let sent = messages(turns.clone(), model);
        assert_eq!(sent[1], json!({"role": "assistant", "content": [{"text": "b"}]}));
        assert_eq!(sent[2], filler);
        assert_eq!(sent[3], json!({"role": "assistant", "content": [{"text": "c"}]}));
        assert_eq!(sent[4], filler);
        assert_eq!(sent.as_array().unwrap().len(), 5);
    }
}
