//! `POST /v1/runs/{run_id}/messages`.

use std::collections::BTreeSet;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::caller::Scope;
use crate::domain::id::{RunId, TenantId};
use crate::domain::redaction::RedactionChannel;
use crate::domain::run_message::{RunMessage, Voice};
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{RunsWrite, Scoped};
use crate::http::extract::{Body, Checks, Keyed, PathId};
use crate::http::limits;
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::http::time::Time;
use crate::store::idempotency::{self, IdempotencyKey, Led};
use crate::store::{messages, runs};

/// A message to a run that is under way.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewMessage {
    /// Whose voice it has; `system` takes the scope `memory:system`.
    #[serde(default = "user")]
    voice: Voice,
    /// The text, which is not blank.
    #[schema(max_length = 65536, pattern = r"\S")]
    text: String,
}

const fn user() -> Voice {
    Voice::User
}

/// A message as it waits for the run's next turn.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunMessage)]
pub(super) struct MessageView {
    /// The run.
    run_id: RunId,
    /// Its place among the messages of the run: 1, 2, 3 …
    number: u32,
    /// Whose voice it has.
    voice: Voice,
    /// The text.
    text: String,
    /// When it was added.
    created_at: Time,
}

impl From<RunMessage> for MessageView {
    fn from(message: RunMessage) -> Self {
        let RunMessage { run_id, number, voice, text, created_at } = message;
        Self { run_id, number, voice, text, created_at: created_at.into() }
    }
}

/// Say something to a run under way
///
/// The model reads it with the run's next turn; where an answer would have ended the run, the run goes on for it. An
/// interrupted run keeps it until it is resumed. Only a run that fails, is cancelled or is never resumed
/// leaves it unread. An interrupted run whose thread went on without it takes none.
#[utoipa::path(post, path = "/v1/runs/{run_id}/messages", tag = "runs", operation_id = "runs_say",
    request_body = NewMessage,
    params(("run_id" = RunId, Path, description = "The run"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request one; 1–255 visible ASCII characters, remembered for 24 hours")),
    responses((status = 202, description = "The message waits for the next turn", body = MessageView)),
    extensions(("x-problems" = json!(["run-not-active", "rate-limited"]))))]
pub(super) async fn say(
    State(app): State<AppState>,
    caller: Scoped<RunsWrite>,
    PathId(id): PathId<RunId>,
    Keyed(Body(new), key): Keyed<Body<NewMessage>>,
) -> Result<Reply<MessageView>, Problem> {
    if new.voice == Voice::System && !caller.may(Scope::MemorySystem) {
        return Err(AgentlingError::Forbidden { required: Scope::MemorySystem }.into());
    }
    let mut checks = Checks::new();
    checks.not_blank("/text", &new.text);
    checks.length("/text", &new.text, 0..=limits::MESSAGE_CHARS);
    checks.finish()?;
    let before = said(&app, &caller.tenant, key.as_ref()).await?;
    let is_replay = before.is_some();
    let message = match before {
        Some(message) => message,
        None => app.engine.say(&caller.tenant, id, (new.voice, new.text, key)).await?,
    };
    let message = shown(&app, &caller.tenant, message).await?;
    Ok(Reply::accepted(format!("/v1/runs/{id}"), message.into()).replayed(is_replay))
}

/// The message of an earlier request with the same key.
async fn said(
    app: &AppState,
    tenant: &TenantId,
    key: Option<&IdempotencyKey>,
) -> Result<Option<RunMessage>, Problem> {
    match idempotency::led_to(&app.store, tenant, key).await? {
        Some(Led { id, number: Some(number) }) => {
            Ok(messages::get(&app.store, tenant, id.into(), number).await?)
        }
        _ => Ok(None),
    }
}

/// A message as callers may read it: like what the run was asked.
async fn shown(
    app: &AppState,
    tenant: &TenantId,
    message: RunMessage,
) -> Result<RunMessage, AgentlingError> {
    let run = runs::get(&app.store, tenant, message.run_id).await?;
    let run = run.ok_or(AgentlingError::NotFound { kind: "run" })?;
    let place = (run.thread_id, Some(run.id));
    let places = BTreeSet::from([place]);
    let redactors = app.engine.redactors(tenant, RedactionChannel::Api, places).await?;
    Ok(RunMessage { text: redactors.text(place, &message.text), ..message })
}
