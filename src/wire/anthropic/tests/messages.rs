//! What turns are told as.

use serde_json::{Value, json};

use super::{
    assistant, block, call, message, messages, opaque, profile, prompt, result, said, system, text,
    thinking, tool, tools, turn, user,
};
use crate::domain::file::{FileBytes, FilePart, FileSource, FileText, FileUrl};
use crate::domain::ledger::{Origin, Place};
use crate::render::prompt::{Block, Prompt, PromptTurn, Role};
use crate::wire::Codec as _;
use crate::wire::anthropic::AnthropicMessages;

fn raw_call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "f", "input": {"b": 1.0, "a": 2}})
}

fn raw_result(id: &str, text: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": [block(text)]})
}

#[test]
fn neighbouring_turns_of_one_speaker_are_one_message() {
    let told = messages(vec![user("a"), turn(Role::User, vec![text("b"), text("c")])]);
    assert_eq!(told, json!([{"role": "user", "content": [block("a"), block("b"), block("c")]}]));
}

#[test]
fn results_come_first_in_the_turn_of_the_user_behind_the_calls() {
    let told = messages(vec![
        user("a"),
        assistant(vec![said("b"), call("1"), call("2")]),
        tools(vec![result("1", "ok", false), result("2", "no", true)]),
        user("c"),
    ]);
    let mut failed = raw_result("2", "no");
    failed["is_error"] = json!(true);
    let expected = json!([
        message("user", "a"),
        {"role": "assistant", "content": [block("b"), raw_call("1"), raw_call("2")]},
        {"role": "user", "content": [raw_result("1", "ok"), failed, block("c")]},
    ]);
    assert_eq!(told, expected);
}

#[test]
fn arguments_are_sent_as_the_text_they_came_as() {
    let turns = vec![user("a"), assistant(vec![call("1")]), tools(vec![result("1", "ok", false)])];
    let sent = AnthropicMessages.encode(&prompt(turns), &profile("anthropic"), false).body;
    let sent = String::from_utf8(sent).unwrap();
    assert!(sent.contains(r#""input":{"b":1.0, "a":2}"#), "{sent}");
}

#[test]
fn an_entry_of_the_system_stands_behind_the_user_and_before_the_model() {
    for (turns, expected) in [
        (
            vec![user("a"), system("s"), system("t")],
            json!([
                message("user", "a"),
                {"role": "system", "content": [block("s"), block("t")]},
            ]),
        ),
        (
            vec![system("s"), user("a"), assistant(vec![said("b")]), user("c")],
            json!([
                message("user", "a"),
                message("system", "s"),
                message("assistant", "b"),
                message("user", "c"),
            ]),
        ),
        (
            vec![user("a"), assistant(vec![said("b")]), system("s")],
            json!([
                message("user", "a"),
                message("assistant", "b"),
                message("user", "."),
                message("system", "s"),
            ]),
        ),
        (
            vec![
                user("a"),
                assistant(vec![call("1")]),
                tools(vec![result("1", "ok", false)]),
                system("s"),
                user("c"),
                assistant(vec![said("b")]),
                user("d"),
            ],
            json!([
                message("user", "a"),
                {"role": "assistant", "content": [raw_call("1")]},
                {"role": "user", "content": [raw_result("1", "ok"), block("c")]},
                message("system", "s"),
                message("assistant", "b"),
                message("user", "d"),
            ]),
        ),
    ] {
        assert_eq!(messages(turns), expected);
    }
}

#[test]
fn a_conversation_begins_and_ends_with_the_user_and_alternates() {
    assert_eq!(messages(Vec::new()), json!([message("user", ".")]));
    let told = messages(vec![assistant(vec![said("a ")]), assistant(vec![said("b\n")])]);
    let expected = json!([
        message("user", "."),
        message("assistant", "a "),
        message("user", "."),
        message("assistant", "b\n"),
        message("user", "."),
    ]);
    assert_eq!(told, expected);
}

#[test]
fn nothing_blank_is_sent() {
    let blank = Block::Said { text: " ".into(), echo: Some(json!({"citations": [1]})) };
    let told = messages(vec![
        user(" \n"),
        assistant(vec![blank, said(""), call("1")]),
        tools(vec![result("1", "\t", false)]),
        assistant(vec![said(" ")]),
        user("b"),
    ]);
    let expected = json!([
        message("user", "."),
        {"role": "assistant", "content": [raw_call("1")]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}, block("b")]},
    ]);
    assert_eq!(told, expected);
}

#[test]
fn thinking_goes_back_as_it_came_and_where_it_came() {
    let redacted =
        |data: &str| Block::RedactedThinking { data: data.to_owned(), origin: Origin::default() };
    let told = messages(vec![
        user("a"),
        assistant(vec![thinking(" é\n", "s=="), redacted("r"), thinking("", "t"), call("1")]),
        tools(vec![result("1", "ok", false)]),
    ]);
    let expected = json!([
        {"type": "thinking", "thinking": " é\n", "signature": "s=="},
        {"type": "redacted_thinking", "data": "r"},
        {"type": "thinking", "thinking": "", "signature": "t"},
        raw_call("1"),
    ]);
    assert_eq!(told[1]["content"], expected);
}

#[test]
fn what_the_decoder_kept_stands_beside_the_part() {
    let citations = json!({"citations": [{"type": "web_search_result_location", "url": "u"}]});
    let caller = json!({"caller": {"type": "code_execution_20260120", "tool_id": "x"}});
    let mut called = call("1");
    if let Block::ToolCall { echo, .. } = &mut called {
        *echo = Some(caller.clone());
    }
    let cited = Block::Said { text: "b".into(), echo: Some(citations.clone()) };
    let told = messages(vec![user("a"), assistant(vec![cited, called]), user("c")]);
    assert_eq!(told[1]["content"][0]["citations"], citations["citations"]);
    assert_eq!(told[1]["content"][1]["caller"], caller["caller"]);
}

fn use_of(id: &str) -> Value {
    json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}})
}

fn result_of(id: &str) -> Value {
    json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []})
}

#[test]
fn a_tool_of_the_provider_goes_back_with_its_result_or_not_at_all() {
    let told = |blocks: Vec<Value>| {
        let blocks = blocks.into_iter().map(opaque).chain([said("b")]).collect();
        messages(vec![user("a"), assistant(blocks), user("c")])[1]["content"].clone()
    };
    let pair = vec![use_of("1"), result_of("1")];
    assert_eq!(told(pair), json!([use_of("1"), result_of("1"), block("b")]));
    assert_eq!(told(vec![use_of("1")]), json!([block("b")]));
    assert_eq!(told(vec![result_of("1")]), json!([block("b")]));
    let other = json!({"type": "compaction", "content": "short"});
    assert_eq!(told(vec![other.clone()]), json!([other, block("b")]));
}

#[test]
fn a_turn_that_paused_is_gone_on_with() {
    let paused = || assistant(vec![said("b"), opaque(use_of("1"))]);
    let expected = json!([
        message("user", "a"),
        {"role": "assistant", "content": [block("b"), use_of("1")]},
    ]);
    assert_eq!(messages(vec![user("a"), paused()]), expected);
    let told =
        messages(vec![user("a"), paused(), assistant(vec![opaque(result_of("1"))]), user("c")]);
    let expected = json!([
        message("user", "a"),
        {"role": "assistant", "content": [block("b"), use_of("1"), result_of("1")]},
        message("user", "c"),
    ]);
    assert_eq!(told, expected);
}

#[test]
fn a_tool_of_the_provider_stays_open_while_it_waits_for_tools_of_ours() {
    let calling = vec![opaque(use_of("1")), call("2")];
    let open = vec![user("a"), assistant(calling), tools(vec![result("2", "ok", false)])];
    let expected = json!([use_of("1"), raw_call("2")]);
    assert_eq!(messages(open.clone())[1]["content"], expected);
    let left = [open, vec![user("c")]].concat();
    assert_eq!(messages(left)[1]["content"], json!([raw_call("2")]));
}

fn file(media_type: &str, source: FileSource) -> Block {
    let file = FilePart { id: "f".to_owned(), media_type: media_type.to_owned(), source };
    Block::File { file, origin: Origin::default() }
}

#[test]
fn images_and_documents_stand_where_they_were_said() {
    let base64 = || FileSource::Base64(FileBytes { base64: "AAAA".to_owned() });
    let url = |url: &str| FileSource::Url(FileUrl { url: url.to_owned() });
    let plain = FileSource::Text(FileText { text: "t".to_owned() });
    let told = messages(vec![turn(
        Role::User,
        vec![
            text("a"),
            file("image/png", base64()),
            file("image/png", url("https://x.example/y")),
            file("application/pdf", base64()),
            file("text/plain", plain),
        ],
    )]);
    let expected = json!([
        block("a"),
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "image", "source": {"type": "url", "url": "https://x.example/y"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"},
            "title": "f",
        },
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "t"},
            "title": "f",
        },
    ]);
    assert_eq!(told[0]["content"], expected);
}

/// The bytes of a request without the brackets that end it.
fn open(turns: &[PromptTurn]) -> String {
    let encoded = AnthropicMessages.encode(
        &Prompt { tools: vec![tool("f")], ..prompt(turns.to_vec()) },
        &profile("anthropic_native_system"),
        true,
    );
    let body = String::from_utf8(encoded.body).unwrap();
    body.trim_end_matches([']', '}']).to_owned()
}

#[test]
fn a_request_begins_with_every_one_that_the_model_answered() {
    let turns = [
        user("a"),
        system("s"),
        assistant(vec![thinking("h", "s"), call("1")]),
        tools(vec![result("1", "ok", false)]),
        system("t"),
        assistant(vec![said("b ")]),
        assistant(vec![said("c")]),
        user("d"),
        user("e"),
        assistant(vec![opaque(use_of("2")), opaque(result_of("2"))]),
    ];
    let whole = open(&turns);
    for (n, turn) in turns.iter().enumerate().filter(|(_, it)| it.role == Role::Assistant) {
        let shorter = open(&turns[..n]);
        assert!(whole.starts_with(&shorter), "{turn:?}: {shorter}\n{whole}");
    }
}

#[test]
fn every_byte_has_an_origin_and_the_conversation_is_found() {
    let turns = vec![user("a"), assistant(vec![thinking("h", "s"), call("1")]), user("c")];
    let encoded = AnthropicMessages.encode(&prompt(turns), &profile("anthropic"), false);
    let mut end = 0;
    for span in &encoded.spans {
        assert_eq!(span.start, end);
        end = span.end;
    }
    assert_eq!(end, u64::try_from(encoded.body.len()).unwrap());
    let conversation = &encoded.body[encoded.conversation_at..];
    assert!(conversation.starts_with(b"{\"role\":\"user\""));
    assert!(encoded.spans.iter().any(|span| span.origin.place == Place::Wire));
}

#[test]
fn what_follows_an_empty_reply_to_an_entry_of_the_system_stands_behind_both() {
    let turns = vec![user("a"), system("s"), assistant(vec![said(" ")]), user("b"), system("t")];
    let expected = json!([
        message("user", "a"),
        message("system", "s"),
        message("assistant", "."),
        message("user", "b"),
        message("system", "t"),
    ]);
    assert_eq!(messages(turns.clone()), expected);
    assert!(open(&turns[..4]).starts_with(&open(&turns[..2])));
    // Where the system said nothing, the user goes on.
    let said_twice = messages(vec![user("a"), assistant(vec![said(" ")]), user("b")]);
    assert_eq!(said_twice, json!([{"role": "user", "content": [block("a"), block("b")]}]));
}
