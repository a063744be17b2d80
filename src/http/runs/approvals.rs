//! `POST /v1/runs/{run_id}/approvals`.

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::view::RunView;
use super::{one_each, shown};
use crate::domain::id::{CallId, RunId};
use crate::domain::wait::{CallAnswer, WaitReason};
use crate::engine::Answers;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{RunsWrite, Scoped};
use crate::http::extract::{Body, Checks, PathId};
use crate::http::limits;
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// Decisions about calls that wait for one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Approvals)]
pub(super) struct NewApprovals {
    /// One a call; at least one, and at most 128.
    #[schema(min_items = 1, max_items = 128)]
    decisions: Vec<NewDecision>,
}

/// A decision about a call.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewDecision)]
struct NewDecision {
    /// The call.
    tool_call_id: CallId,
    /// Whether it may run.
    approve: bool,
    /// What the model is told about a refusal.
    #[serde(default)]
    #[schema(max_length = 65536)]
    message: Option<String>,
    /// The arguments that it is to run with instead of those of the model; only with an approval.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    arguments: Option<Map<String, Value>>,
}

impl NewDecision {
    fn answer(self) -> (CallId, CallAnswer) {
        let answer = if self.approve {
            let arguments = self.arguments.map(|arguments| Value::Object(arguments).to_string());
            CallAnswer::Approved { arguments }
        } else {
            CallAnswer::Denied { message: self.message }
        };
        (self.tool_call_id, answer)
    }

    fn check(&self, checks: &mut Checks, at: &str) {
        if let Some(message) = &self.message {
            checks.length(&format!("{at}/message"), message, 0..=limits::MESSAGE_CHARS);
            let text = "is only told about a refusal";
            checks.require(!self.approve, &format!("{at}/message"), "invalid_value", text);
        }
        let fits = self.approve || self.arguments.is_none();
        let text = "only count with an approval";
        checks.require(fits, &format!("{at}/arguments"), "invalid_value", text);
    }
}

impl NewApprovals {
    fn answers(self) -> Result<Vec<(CallId, CallAnswer)>, AgentlingError> {
        let mut checks = Checks::new();
        one_each(&mut checks, "/decisions", self.decisions.iter().map(|one| &one.tool_call_id));
        for (n, decision) in self.decisions.iter().enumerate() {
            decision.check(&mut checks, &format!("/decisions/{n}"));
        }
        checks.finish()?;
        Ok(self.decisions.into_iter().map(NewDecision::answer).collect())
    }
}

/// Decide about tool calls
///
/// For calls of tools with `approval`, which the run waits for. All decisions count or none, and each is made once:
/// of two that race, one is taken and the other refused. A refused call is told to the model as such. A repeated
/// request is refused, as the calls have their decisions.
#[utoipa::path(post, path = "/v1/runs/{run_id}/approvals", tag = "runs",
    operation_id = "runs_decide",
    request_body = NewApprovals,
    params(("run_id" = RunId, Path, description = "The run")),
    responses((status = 200, description = "The run as it stands", body = RunView)),
    extensions(("x-problems" = json!(["unknown-tool-call", "tool-call-already-answered", "run-not-waiting"]))))]
pub(super) async fn decide(
    State(app): State<AppState>,
    caller: Scoped<RunsWrite>,
    PathId(id): PathId<RunId>,
    Body(new): Body<NewApprovals>,
) -> Result<Reply<RunView>, Problem> {
    let (reason, key) = (WaitReason::Approval, caller.key);
    let answers = Answers { reason, answers: new.answers()?, key };
    let run = app.engine.answer(&caller.tenant, id, answers).await?;
    Ok(Reply::ok(shown(&app, &caller.tenant, run).await?))
}
