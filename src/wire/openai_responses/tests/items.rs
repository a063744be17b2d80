//! How the items of a reply go back to who sent them.

use serde_json::{Value, json};

use super::requests::{body, call, compatible, openai, prompt, said, thought, turn};
use crate::domain::ledger::Origin;
use crate::render::profile::Profile;
use crate::render::prompt::{Block, Role};

fn sent(blocks: Vec<Block>, profile: &Profile) -> Value {
    body(&prompt(vec![turn(Role::Assistant, blocks)]), profile)["input"].clone()
}

fn opaque(raw: Value) -> Block {
    Block::Opaque { raw, origin: Origin::default() }
}

fn reply() -> Vec<Block> {
    vec![
        thought("one", Some("sealed"), None),
        thought("two", None, None),
        said("a", Some(json!({"id": "msg", "phase": "commentary", "annotations": [{"n": 1}]}))),
        said("b", Some(json!({"id": "msg"}))),
        opaque(json!({"type": "web_search_call", "id": "ws", "action": {"q": 1}})),
        call("c", Some(json!({"id": "fc", "namespace": "n"}))),
    ]
}

#[test]
fn a_host_that_wants_ids_gets_every_item_as_it_came() {
    let summary = |text: &str| json!({"type": "summary_text", "text": text});
    let part = |text: &str, annotations: Value| json!({"type": "output_text", "text": text, "annotations": annotations});
    assert_eq!(
        sent(reply(), &compatible()),
        json!([
            {"type": "reasoning", "id": "rs", "summary": [summary("one"), summary("two")],
                "encrypted_content": "sealed"},
            {"type": "message", "id": "msg", "status": "completed", "role": "assistant",
                "phase": "commentary", "content": [part("a", json!([{"n": 1}])), part("b", json!([]))]},
            {"type": "web_search_call", "id": "ws", "action": {"q": 1}},
            {"type": "function_call", "id": "fc", "namespace": "n", "call_id": "c", "name": "f",
                "arguments": "{\"b\":1.0, \"a\":2}"},
        ])
    );
}

#[test]
fn a_host_that_pairs_items_by_their_ids_gets_none() {
    let sent = sent(reply(), &openai());
    assert_eq!(
        sent[1],
        json!({"type": "message", "role": "assistant", "phase": "commentary", "content": [
            {"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]})
    );
    let kinds: Vec<_> = sent.as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["reasoning", "message", "web_search_call", "function_call"]);
    assert!(sent.as_array().unwrap().iter().all(|item| item.get("id").is_none()));
}

#[test]
fn reasoning_that_is_not_sealed_or_led_to_nothing_is_not_told_where_it_is_sealed() {
    let unsealed = || vec![thought("t", None, None), said("a", None)];
    let trailing = || vec![said("a", None), thought("t", Some("s"), None)];
    for (blocks, n_compatible) in [(unsealed(), 2), (trailing(), 2), (reply(), 4)] {
        assert_eq!(sent(blocks, &compatible()).as_array().unwrap().len(), n_compatible);
    }
    let only_said = json!([{"type": "message", "role": "assistant", "content": "a"}]);
    assert_eq!(sent(unsealed(), &openai()), only_said);
    assert_eq!(sent(trailing(), &openai()), only_said);
}

#[test]
fn several_items_of_reasoning_stay_several() {
    let blocks = || {
        vec![
            thought("a", Some("1"), None),
            thought("", Some("2"), None),
            Block::RedactedThinking { data: "3".to_owned(), origin: Origin::default() },
            call("c", None),
        ]
    };
    let sealed: Vec<Value> = sent(blocks(), &openai())
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["encrypted_content"].clone())
        .collect();
    assert_eq!(sealed, [json!("1"), json!("2"), json!("3"), Value::Null]);
    assert_eq!(sent(blocks(), &openai())[1]["summary"], json!([]));
}

#[test]
fn reasoning_that_came_open_goes_back_open() {
    let raw = || Some(json!({"content": true}));
    let open = sent(vec![thought("a", None, raw()), thought("b", None, raw())], &compatible());
    let part = |text: &str| json!({"type": "reasoning_text", "text": text});
    assert_eq!(
        open,
        json!([{"type": "reasoning", "id": "rs", "summary": [], "content": [part("a"), part("b")]}])
    );
    let both = json!({"content": [part("x")], "format": "f"});
    let both = sent(vec![thought("a", None, Some(both))], &compatible());
    assert_eq!(both[0]["content"], json!([part("x")]));
    assert_eq!(both[0]["summary"], json!([{"type": "summary_text", "text": "a"}]));
    assert_eq!(both[0]["format"], "f");
}
