//! The scripted model through the sender.

use std::time::Duration;

use serde_json::{Value, json};

use super::server::{ask, call, models};
use crate::domain::message::{Reply, ReplyPart};
use crate::domain::model::{FinishReason, ModelError, ModelErrorKind as Kind, Provider};
use crate::provider::{ModelCall, ProviderKeys};
use crate::wire::{Block, DeltaPiece, Profile, PromptTurn, Role};

fn scripted(script: &Value) -> ModelCall {
    let mut call = call("http://127.0.0.1:1");
    call.spec.provider = Provider::Scripted;
    call.spec.base_url = None;
    call.spec.script = serde_json::from_value(script.clone()).unwrap();
    call.profile = Profile::resolve(&call.spec);
    call
}

async fn play(call: &ModelCall) -> (Result<Reply, ModelError>, Vec<DeltaPiece>) {
    let (attempt, pieces) = ask(&models(ProviderKeys::default()), call).await;
    (attempt.outcome, pieces)
}

async fn said(call: &ModelCall) -> Option<String> {
    play(call).await.0.unwrap().text()
}

fn whole(mut call: ModelCall) -> ModelCall {
    call.prompt.settings.stream = Some(false);
    call
}

#[tokio::test]
async fn streamed_and_whole_replies_are_the_same() {
    let call = scripted(&json!([{
        "text": "Hello", "thinking": "hm", "chunks": 3,
        "tool_calls": [
            {"name": "f", "arguments": {"b": 1, "a": 2}},
            {"name": "g", "raw_arguments": "{oops", "id": "mine"},
        ],
        "usage": {"input": 5, "output": 7},
    }]));
    let (streamed, pieces) = play(&call).await;
    let streamed = streamed.unwrap();
    assert_eq!(streamed, play(&whole(call)).await.0.unwrap());
    let texts: Vec<_> = pieces.iter().map(|piece| piece.text.as_str()).collect();
    assert_eq!(texts, ["hm", "He", "ll", "o", "{\"b\":1,\"a\":2}", "{oops"]);
    let calls: Vec<_> = streamed
        .tool_calls()
        .map(|call| (call.provider_call_id.as_deref(), call.arguments.as_str()))
        .collect();
    assert_eq!(calls, [(Some("call_1_1"), "{\"b\":1,\"a\":2}"), (Some("mine"), "{oops")]);
    assert!(matches!(streamed.parts.first(), Some(ReplyPart::Thinking(_))));
    let usage = streamed.usage.unwrap();
    assert_eq!((usage.input, usage.output), (5, 7));
    assert_eq!(streamed.finish_reason, Some(FinishReason::ToolCalls));
    assert_eq!(
        (streamed.provider, streamed.model.as_deref()),
        (Some(Provider::Scripted), Some("m"))
    );
}

#[tokio::test]
async fn each_turn_has_its_entry_and_the_last_repeats() {
    let mut call = scripted(&json!([{"text": "one"}, {"text": "two"}]));
    for (turn, text) in [(1, "one"), (2, "two"), (3, "two"), (900, "two")] {
        call.turn = turn;
        call.attempt = 2;
        assert_eq!(said(&call).await.as_deref(), Some(text));
    }
}

#[tokio::test]
async fn echo_answers_with_the_last_thing_a_person_said() {
    let mut call = scripted(&json!([{"echo": true}]));
    assert_eq!(said(&call).await.as_deref(), Some("hi"));
    let text = |text: &str| Block::Text(text.into());
    let answer = Block::Said { text: "c".into(), echo: None };
    call.prompt.turns.push(PromptTurn { role: Role::User, blocks: vec![text("a"), text("b")] });
    call.prompt.turns.push(PromptTurn { role: Role::Assistant, blocks: vec![answer] });
    assert_eq!(said(&call).await.as_deref(), Some("ab"));
    call.spec.script.clear();
    assert_eq!(said(&whole(call)).await.as_deref(), Some("ab"));
}

#[tokio::test]
async fn counts_that_are_not_given_follow_from_the_text() {
    let call = scripted(&json!([{"text": "Hello"}]));
    let usage = play(&call).await.0.unwrap().usage.unwrap();
    let messages = r#"[{"role":"user","content":"hi"}]"#;
    assert_eq!(
        (usage.input, usage.output),
        (u64::try_from(messages.len().div_ceil(4)).unwrap(), 2)
    );
}

#[tokio::test]
async fn an_empty_entry_is_a_reply_with_nothing_in_it() {
    let reply = play(&scripted(&json!([{"finish_reason": "length"}]))).await.0.unwrap();
    assert_eq!((reply.parts, reply.finish_reason), (vec![], Some(FinishReason::Length)));
}

#[tokio::test]
async fn failures_are_what_a_provider_would_answer() {
    for (kind, class, status) in [
        ("server", Kind::Server, Some(500)),
        ("rate_limit", Kind::RateLimit, Some(429)),
        ("bad_request", Kind::BadRequest, Some(400)),
        ("disconnect", Kind::Transport, None),
    ] {
        let error = json!({"kind": kind, "retry_after_ms": 1_500});
        let call = scripted(&json!([{"text": "Hello", "error": error}]));
        let (answer, pieces) = play(&call).await;
        let error = answer.unwrap_err();
        assert_eq!((error.kind, error.provider_status), (class, status), "{kind}");
        assert_eq!(error.retry_after_ms, status.map(|_| 1_500), "{kind}");
        let heard: String = pieces.into_iter().map(|piece| piece.text).collect();
        assert_eq!(heard, if kind == "disconnect" { "Hel" } else { "" }, "{kind}");
        assert_eq!(play(&whole(call)).await.0.unwrap_err().kind, class, "{kind}");
    }
}

#[tokio::test]
async fn a_scripted_timeout_meets_the_deadline() {
    let mut call = scripted(&json!([{"error": {"kind": "timeout"}}]));
    call.timeout = Duration::from_millis(20);
    assert_eq!(play(&call).await.0.unwrap_err().kind, Kind::Timeout);
    let mut slow = scripted(&json!([{"text": "late", "delay_ms": 60_000}]));
    slow.timeout = Duration::from_millis(20);
    assert_eq!(play(&slow).await.0.unwrap_err().kind, Kind::Timeout);
}

#[tokio::test]
async fn a_failure_may_last_for_some_attempts_only() {
    let mut call = scripted(&json!([{"text": "ok", "error": {"kind": "server", "times": 2}}]));
    for (tries, fails) in [(1, true), (2, true), (3, false), (4, false)] {
        call.tries = tries;
        assert_eq!(play(&call).await.0.is_err(), fails, "{tries}");
    }
}
