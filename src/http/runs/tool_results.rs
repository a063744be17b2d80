//! `POST /v1/runs/{run_id}/tool-results`.

use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::view::RunView;
use super::{one_each, shown};
use crate::domain::id::{CallId, RunId};
use crate::domain::tool::{ToolFailure, ToolOutput};
use crate::domain::wait::{CallAnswer, WaitReason};
use crate::engine::Answers;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{RunsWrite, Scoped};
use crate::http::extract::{Checks, LargeBody, PathId};
use crate::http::limits;
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// Results of calls that the caller ran.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ToolResults)]
pub(super) struct NewToolResults {
    /// One a call; at least one, and at most 128.
    #[schema(min_items = 1, max_items = 128)]
    results: Vec<NewToolResult>,
}

/// The result of a call.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewToolResult)]
struct NewToolResult {
    /// The call.
    tool_call_id: CallId,
    /// What it gave back: text, or any other JSON. Absent for nothing, and where there is an `error`.
    #[serde(default)]
    output: Option<Value>,
    /// What went wrong, for the model to read; makes the result a failure.
    #[serde(default)]
    #[schema(max_length = 65536)]
    error: Option<String>,
}

impl NewToolResult {
    fn answer(self) -> (CallId, CallAnswer) {
        let answer = match self.error {
            Some(message) => CallAnswer::Failed {
                error: ToolFailure { r#type: "ClientError".to_owned(), message, redacted: false },
            },
            None => CallAnswer::Succeeded { output: self.output.map(ToolOutput::from) },
        };
        (self.tool_call_id, answer)
    }
}

impl NewToolResults {
    fn answers(self) -> Result<Vec<(CallId, CallAnswer)>, AgentlingError> {
        let mut checks = Checks::new();
        one_each(&mut checks, "/results", self.results.iter().map(|one| &one.tool_call_id));
        for (n, result) in self.results.iter().enumerate() {
            let at = format!("/results/{n}/error");
            if let Some(error) = &result.error {
                checks.length(&at, error, 0..=limits::MESSAGE_CHARS);
            }
            let both = result.error.is_some() && result.output.is_some();
            checks.require(!both, &at, "invalid_value", "excludes an `output`");
        }
        checks.finish()?;
        Ok(self.results.into_iter().map(NewToolResult::answer).collect())
    }
}

/// Post results of tool calls
///
/// For calls of `client` tools, which the run waits for. All results count or none. A repeated request is
/// answered the same; another result for a call that has its result is refused. The run goes on once every call of the
/// turn has its outcome.
#[utoipa::path(post, path = "/v1/runs/{run_id}/tool-results", tag = "runs",
    operation_id = "runs_post_tool_results",
    request_body = NewToolResults,
    params(("run_id" = RunId, Path, description = "The run")),
    responses((status = 200, description = "The run as it stands", body = RunView)),
    extensions(("x-problems" = json!(["unknown-tool-call", "tool-call-already-answered", "run-not-waiting"]))))]
pub(super) async fn post_tool_results(
    State(app): State<AppState>,
    caller: Scoped<RunsWrite>,
    PathId(id): PathId<RunId>,
    LargeBody(new): LargeBody<NewToolResults>,
) -> Result<Reply<RunView>, Problem> {
    let (reason, key) = (WaitReason::ToolResults, caller.key);
    let answers = Answers { reason, answers: new.answers()?, key };
    let run = app.engine.answer(&caller.tenant, id, answers).await?;
    Ok(Reply::ok(shown(&app, &caller.tenant, run).await?))
}
