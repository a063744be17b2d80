//! What a server wants back goes back as it came.

use serde_json::{Value, json};

use super::followups::block;
use super::requests::{prompt, turn};
use crate::domain::message::{Reply, ReplyPart};
use crate::domain::model::{ModelSettings, ModelSpec, ProfileOverrides, Provider};
use crate::render::profile::Profile;
use crate::render::prompt::Role;
use crate::wire::Codec as _;
use crate::wire::openai_chat::OpenaiChat;

const LOCAL: &str = "http://127.0.0.1:8000/v1";

const GEMINI: &str = "https://generativelanguage.googleapis.com/v1beta/openai";

fn model(provider: Provider, base_url: Option<&str>) -> ModelSpec {
    ModelSpec {
        provider,
        name: "m".to_owned(),
        base_url: base_url.map(str::to_owned),
        api_key: None,
        profile: ProfileOverrides::default(),
        settings: ModelSettings::default(),
        script: Vec::new(),
        fallbacks: Vec::new(),
        price: None,
    }
}

fn whole(provider: Provider, message: &Value) -> Reply {
    let body = json!({"choices": [{"message": message, "finish_reason": "stop"}]});
    OpenaiChat.decode(provider, body.to_string().as_bytes()).unwrap()
}

fn streamed(provider: Provider, deltas: &[Value]) -> Reply {
    let mut decoder = OpenaiChat.stream(provider);
    for delta in deltas {
        let chunk = json!({"choices": [{"delta": delta}]});
        decoder.push(format!("data: {chunk}\n\n").as_bytes()).unwrap();
    }
    decoder.push(b"data: [DONE]\n\n").unwrap();
    decoder.finish().unwrap()
}

/// The message that a reply becomes when it goes back to who sent it.
fn returned(reply: Reply, model: &ModelSpec) -> Value {
    let blocks = reply.parts.into_iter().map(block).collect();
    let prompt = prompt(vec![turn(Role::Assistant, blocks)]);
    let body = OpenaiChat.encode(&prompt, &Profile::resolve(model), false).body;
    let body: Value = serde_json::from_slice(&body).unwrap();
    body["messages"][0].clone()
}

fn called(more: &Value) -> Value {
    let mut call = json!({"id": "c", "type": "function",
        "function": {"name": "f", "arguments": "{}"}});
    let members = more.as_object().unwrap().clone();
    call.as_object_mut().unwrap().extend(members);
    call
}

#[test]
fn steps_of_thinking_go_back_as_they_came() {
    let details = json!([
        {"type": "reasoning.text", "text": "hm", "signature": "s", "format": "f", "index": 0},
        {"type": "reasoning.summary", "summary": "other", "index": 1},
        {"type": "reasoning.encrypted", "data": "d", "id": "r", "format": null, "index": 2},
    ]);
    let message = json!({"role": "assistant", "content": "Yes.", "reasoning": "hm",
        "reasoning_details": details});
    let reply = whole(Provider::Openrouter, &message);
    let stored = serde_json::to_string(&reply).unwrap();
    assert_eq!(stored.matches("\"hm\"").count(), 1, "{stored}");
    let back = returned(reply, &model(Provider::Openrouter, None));
    assert_eq!(back["reasoning_details"], details);
    assert_eq!((&back["content"], back.get("reasoning")), (&json!("Yes."), None));
}

#[test]
fn steps_of_thinking_that_come_in_pieces_go_back_whole() {
    let text = |text: &str| {
        json!({"reasoning_details":
        [{"type": "reasoning.text", "text": text, "index": 0, "format": null}]})
    };
    let reply = streamed(
        Provider::Openrouter,
        &[
            text("h"),
            text("m"),
            json!({"reasoning_details":
                [{"type": "reasoning.text", "signature": "s", "index": 0, "format": "a"}]}),
            json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "d", "index": 1}]}),
            json!({"content": "Yes."}),
        ],
    );
    let back = returned(reply, &model(Provider::Openrouter, None));
    let expected = json!([
        {"type": "reasoning.text", "text": "hm", "index": 0, "format": "a", "signature": "s"},
        {"type": "reasoning.encrypted", "data": "d", "index": 1},
    ]);
    assert_eq!(back["reasoning_details"], expected);
}

#[test]
fn thinking_goes_back_under_the_member_it_came_under() {
    for name in ["reasoning_content", "reasoning"] {
        let message = json!({"content": "Yes.", name: "hm"});
        let back =
            returned(whole(Provider::Openai, &message), &model(Provider::Openai, Some(LOCAL)));
        assert_eq!(back, json!({"role": "assistant", "content": "Yes.", name: "hm"}));
    }
}

#[test]
fn deepseek_gets_thinking_back_beside_calls_and_nowhere_else() {
    let deepseek = model(Provider::Deepseek, None);
    let back = |message: &Value| returned(whole(Provider::Deepseek, message), &deepseek);
    let thought =
        json!({"content": "", "reasoning_content": "hm", "tool_calls": [called(&json!({}))]});
    assert_eq!(back(&thought)["reasoning_content"], "hm");
    let unknown = json!({"content": "", "tool_calls": [called(&json!({}))]});
    assert_eq!(back(&unknown)["reasoning_content"], "");
    let plain = json!({"content": "Yes.", "reasoning_content": "hm"});
    assert!(back(&plain).get("reasoning_content").is_none());
}

#[test]
fn mistral_gets_thinking_back_in_the_content() {
    let thinking = json!({"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]});
    let message = json!({"content": [thinking, {"type": "text", "text": "Yes."}]});
    let back = returned(whole(Provider::Mistral, &message), &model(Provider::Mistral, None));
    assert_eq!(back["content"], message["content"]);
}

#[test]
fn members_of_a_call_that_are_not_known_go_back() {
    let more = json!({"extra_content": {"google": {"thought_signature": "s"}}, "custom": {"name": ""},
        "function": {"name": "f", "arguments": "{}", "note": 1}});
    let gemini = model(Provider::Openai, Some(GEMINI));
    let mut expected = called(&more);
    expected.as_object_mut().unwrap().shift_remove("custom");
    let reply = whole(Provider::Openai, &json!({"tool_calls": [called(&more)]}));
    assert_eq!(returned(reply, &gemini)["tool_calls"], json!([expected]));
    let fragment = |call: Value| json!({"tool_calls": [call]});
    let reply = streamed(
        Provider::Openai,
        &[
            fragment(json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}})),
            fragment(json!({"index": 0, "thought_signature": "s", "function": {"arguments": "}"}})),
        ],
    );
    let expected = json!([called(&json!({"thought_signature": "s"}))]);
    assert_eq!(returned(reply.clone(), &gemini)["tool_calls"], expected);
    // OpenAI itself refuses what it does not know.
    let openai = returned(reply, &model(Provider::Openai, None));
    assert_eq!(openai["tool_calls"], json!([called(&json!({}))]));
}

#[test]
fn signatures_beside_a_message_go_back_beside_it() {
    let message = json!({"content": "Yes.", "thought_signature": "s",
        "extra_content": {"google": {"thought_signature": "s"}}});
    let back = returned(whole(Provider::Openai, &message), &model(Provider::Openai, Some(GEMINI)));
    assert_eq!(back["extra_content"], message["extra_content"]);
    assert_eq!((&back["thought_signature"], &back["content"]), (&json!("s"), &json!("Yes.")));
}

#[test]
fn images_and_parts_that_are_not_known_are_kept_and_go_back() {
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    let part = json!({"type": "mystery", "x": 1});
    let message = json!({"content": [{"type": "text", "text": "See."}, part], "images": [image]});
    let reply = whole(Provider::Openrouter, &message);
    let unknown = reply.parts.iter().filter(|part| matches!(part, ReplyPart::Unknown(_)));
    assert_eq!(unknown.count(), 2);
    let back = returned(reply, &model(Provider::Openrouter, None));
    assert_eq!(back["content"], message["content"]);
    assert_eq!(back["images"], message["images"]);
}

#[test]
fn thinking_in_the_text_is_told_apart_and_does_not_go_back() {
    let reply = streamed(
        Provider::Openai,
        &[
            json!({"content": "<thi"}),
            json!({"content": "nk>hm</th"}),
            json!({"content": "ink>\nYes."}),
        ],
    );
    let [ReplyPart::Thinking(thinking), ReplyPart::Text(said)] = &reply.parts[..] else {
        panic!("{reply:?}")
    };
    assert_eq!((thinking.text.as_str(), said.text.as_str()), ("hm", "Yes."));
    let back = returned(reply, &model(Provider::Openai, Some(LOCAL)));
    assert_eq!(back, json!({"role": "assistant", "content": "Yes."}));
}

#[test]
fn the_profile_decides_whether_tags_in_the_text_are_read() {
    let body = json!({"choices": [{"message": {"content": "hm\n</think>\nYes."}}]}).to_string();
    let text = |base_url| {
        let profile = Profile::resolve(&model(Provider::Openai, base_url));
        let reply = OpenaiChat.decode_for(Provider::Openai, &profile, body.as_bytes());
        reply.unwrap().text().unwrap()
    };
    assert_eq!(text(Some(LOCAL)), "Yes.");
    assert_eq!(text(None), "hm\n</think>\nYes.");
}

#[test]
fn a_reply_that_is_spread_over_choices_without_numbers_is_one_reply() {
    let body = json!({"choices": [
        {"message": {"content": "Let me see."}, "finish_reason": "tool_calls"},
        {"message": {"content": null, "tool_calls": [called(&json!({}))]}},
    ]});
    let reply = OpenaiChat.decode(Provider::Openai, body.to_string().as_bytes()).unwrap();
    assert_eq!((reply.text().as_deref(), reply.tool_calls().count()), (Some("Let me see."), 1));
    let numbered = json!({"choices": [
        {"index": 1, "message": {"content": "b"}}, {"index": 0, "message": {"content": "a"}},
    ]});
    let reply = OpenaiChat.decode(Provider::Openai, numbered.to_string().as_bytes()).unwrap();
    assert_eq!(reply.text().as_deref(), Some("a"));
}
