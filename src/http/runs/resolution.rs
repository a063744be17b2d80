//! `POST /v1/runs/{run_id}/tool-calls/{call_id}/resolution`.

use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::shown;
use super::view::RunView;
use crate::domain::id::{CallId, RunId};
use crate::domain::tool::{ToolFailure, ToolOutput};
use crate::domain::wait::{CallAnswer, ResolvedAs, WaitReason};
use crate::engine::Answers;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{RunsWrite, Scoped};
use crate::http::extract::{Body, Checks, PathIdAndName};
use crate::http::limits;
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// What became of a call in doubt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Resolution)]
pub(super) struct NewResolution {
    /// Whether it took effect.
    outcome: ResolvedAs,
    /// What it gave back: text, or any other JSON; only of one that succeeded.
    #[serde(default)]
    output: Option<Value>,
    /// What went wrong, for the model to read; only of one that failed.
    #[serde(default)]
    #[schema(max_length = 65536)]
    message: Option<String>,
}

impl NewResolution {
    fn answer(self) -> Result<CallAnswer, AgentlingError> {
        let mut checks = Checks::new();
        let has_output = self.output.is_some() && self.outcome != ResolvedAs::Succeeded;
        checks.require(!has_output, "/output", "invalid_value", "only of one that succeeded");
        let has_message = self.message.is_some() && self.outcome != ResolvedAs::Failed;
        checks.require(!has_message, "/message", "invalid_value", "only of one that failed");
        let message = self.message.unwrap_or_default();
        checks.length("/message", &message, 0..=limits::MESSAGE_CHARS);
        checks.finish()?;
        Ok(match self.outcome {
            ResolvedAs::Succeeded => {
                CallAnswer::Succeeded { output: self.output.map(ToolOutput::from) }
            }
            ResolvedAs::Failed => CallAnswer::Failed {
                error: ToolFailure { r#type: "Resolved".to_owned(), message, redacted: false },
            },
            ResolvedAs::Retry => CallAnswer::Retry,
        })
    }
}

/// Say what became of a call in doubt
///
/// For a call of an `at_most_once` tool that was sent and whose answer was lost, which the run waits for. It is said
/// once: of two that race, one is taken and the other refused. A repeated request is refused, as the call does not
/// wait any more.
#[utoipa::path(post, path = "/v1/runs/{run_id}/tool-calls/{call_id}/resolution", tag = "runs",
    operation_id = "runs_resolve",
    request_body = NewResolution,
    params(("run_id" = RunId, Path, description = "The run"),
        ("call_id" = CallId, Path, description = "The call")),
    responses((status = 200, description = "The run as it stands", body = RunView)),
    extensions(("x-problems" = json!(["unknown-tool-call", "tool-call-already-answered", "run-not-waiting"]))))]
pub(super) async fn resolve(
    State(app): State<AppState>,
    caller: Scoped<RunsWrite>,
    PathIdAndName(id, call_id): PathIdAndName<RunId, CallId>,
    Body(new): Body<NewResolution>,
) -> Result<Reply<RunView>, Problem> {
    let (reason, key) = (WaitReason::InDoubt, caller.key);
    let answers = Answers { reason, answers: vec![(call_id, new.answer()?)], key };
    let run = app.engine.answer(&caller.tenant, id, answers).await?;
    Ok(Reply::ok(shown(&app, &caller.tenant, run).await?))
}
