//! The scripted model: it speaks the same wire as a server would, from inside the process.
//!
//! Token counts that the script does not give are one for every four characters, rounded up: input
//! over the request's `messages` as sent, output over the text, thinking and arguments of the
//! answer.

mod lines;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

use super::peer::{Body, Peer};
use super::{ModelCall, SUMMARY_TURN};
use crate::domain::model::{ModelError, ModelErrorKind, Provider};
use crate::domain::script::{ScriptError, ScriptErrorKind, ScriptTurn};
use lines::Line;

/// What is left of an answer.
#[derive(Debug)]
pub(super) struct Script {
    chunks: VecDeque<Bytes>,
    hangs_up: bool,
}

impl Script {
    pub(super) fn chunk(&mut self, provider: Provider) -> Result<Option<Bytes>, ModelError> {
        match self.chunks.pop_front() {
            None if self.hangs_up => {
                let what = "the scripted model hung up";
                Err(ModelError::new(provider, ModelErrorKind::Transport, what))
            }
            next => Ok(next),
        }
    }
}

/// Answers a request as the script says. An agent without a script echoes.
pub(super) async fn answer(call: &ModelCall, request: &[u8]) -> Peer {
    let echo = ScriptTurn { echo: true, ..ScriptTurn::default() };
    let summary = summary();
    let entry = match call.turn {
        SUMMARY_TURN => &summary,
        turn => entry(&call.spec.script, turn).unwrap_or(&echo),
    };
    tokio::time::sleep(Duration::from_millis(entry.delay_ms.unwrap_or(0))).await;
    let failure = entry.error.as_ref().filter(|error| fails(error, call.tries));
    let kind = failure.map(|error| error.kind);
    if kind == Some(ScriptErrorKind::Timeout) {
        // The caller's deadline is what ends this.
        std::future::pending::<()>().await;
    }
    let cut = kind == Some(ScriptErrorKind::Disconnect);
    match failure.and_then(refusal) {
        Some(refusal) => refusal,
        None => speak(&Line::of(entry, request, call.turn), call.streams(), cut),
    }
}

/// What it writes when it is asked for a summary, which is no turn of a run.
fn summary() -> ScriptTurn {
    let text = "A summary by the scripted model: the user asked, and the assistant went to work.";
    ScriptTurn { text: Some(text.to_owned()), ..ScriptTurn::default() }
}

/// The entry of a turn; past the end the last one repeats.
fn entry(script: &[ScriptTurn], turn: u32) -> Option<&ScriptTurn> {
    let position = usize::try_from(turn.saturating_sub(1)).unwrap_or(usize::MAX);
    script.get(position).or_else(|| script.last())
}

fn fails(error: &ScriptError, tries: u32) -> bool {
    error.times.is_none_or(|times| tries <= times)
}

/// The failures that are an answer with a status.
fn refusal(error: &ScriptError) -> Option<Peer> {
    let (status, kind, code) = match error.kind {
        ScriptErrorKind::Server => (500, "server_error", Value::Null),
        ScriptErrorKind::RateLimit => (429, "requests", json!("rate_limit_exceeded")),
        ScriptErrorKind::BadRequest => (400, "invalid_request_error", Value::Null),
        ScriptErrorKind::Timeout | ScriptErrorKind::Disconnect => return None,
    };
    let message = format!("scripted failure: {}", error.kind);
    let body = json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
    let mut peer = peer(status, "application/json", vec![Bytes::from(body.to_string())]);
    peer.retry_after_ms = error.retry_after_ms.map(|wait| wait.to_string());
    Some(peer)
}

/// Says a line, whole or only its first half.
fn speak(line: &Line<'_>, streams: bool, cut: bool) -> Peer {
    let mut peer = match (streams, cut) {
        (true, false) => peer(200, "text/event-stream", line.events()),
        (true, true) => peer(200, "text/event-stream", line.first_events()),
        (false, _) => peer(200, "application/json", vec![line.body()]),
    };
    if let Body::Scripted(script) = &mut peer.body {
        script.hangs_up = cut;
        if cut && !streams {
            script.chunks.iter_mut().for_each(|chunk| chunk.truncate(chunk.len() / 2));
        }
    }
    peer
}

fn peer(status: u16, content_type: &str, chunks: Vec<Bytes>) -> Peer {
    Peer {
        status,
        content_type: content_type.to_owned(),
        retry_after_ms: None,
        retry_after: None,
        should_retry: None,
        error_type: None,
        counters: Vec::new(),
        body: Body::Scripted(Script { chunks: chunks.into(), hangs_up: false }),
    }
}
