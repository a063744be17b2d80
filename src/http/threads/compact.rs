//! `POST /v1/threads/{thread_id}/compact`.

use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{find, operator_write, told, told_again, view};
use crate::domain::agent::AgentSpec;
use crate::domain::caller::{Caller, Scope};
use crate::domain::id::ThreadId;
use crate::domain::thread::Thread;
use crate::engine::{CompactThread, Shorter};
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{MemoryWrite, Scoped};
use crate::http::extract::{Body, Checks, IfMatch, Keyed, PathId};
use crate::http::problem::Problem;
use crate::http::repeats::led_to;
use crate::http::reply::Reply;
use crate::http::runs::new_run::{check_agent, which_agent};
use crate::http::steps::view::StepView;
use crate::store::operator::OperatorWrite;

/// How a thread can be told in a shorter form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum CompactStrategy {
    /// A summary replaces the steps.
    Summarize,
    /// What tools gave back is left out.
    DropToolOutput,
}

/// What is told in a shorter form, and how.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewCompaction {
    /// How.
    strategy: CompactStrategy,
    /// `seq` of the last step that is told so; by default the thread's last one.
    #[serde(default)]
    #[schema(minimum = 1)]
    through_seq: Option<i64>,
    /// The summary, which is not blank; without it, one that an agent's model writes.
    #[serde(default)]
    summary: Option<String>,
    /// The id or unique name of an agent whose model writes the summary.
    #[serde(default)]
    #[schema(examples("weather"))]
    agent_id: Option<String>,
    /// The version of that agent; by default the newest.
    #[serde(default)]
    #[schema(minimum = 1)]
    agent_version: Option<i32>,
    /// An agent defined by the request, in place of `agent_id`.
    #[serde(default)]
    agent: Option<AgentSpec>,
}

impl NewCompaction {
    /// Checks everything that can be known without looking anything up.
    fn check(&self) -> Result<(), AgentlingError> {
        let mut checks = Checks::new();
        let summarizes = self.strategy == CompactStrategy::Summarize;
        if let Some(summary) = &self.summary {
            checks.not_blank("/summary", summary);
            let message = "belongs to the strategy `summarize`";
            checks.require(summarizes, "/summary", "invalid_value", message);
        }
        let (id, version, inline) =
            (self.agent_id.as_ref(), self.agent_version, self.agent.as_ref());
        if summarizes && self.summary.is_none() {
            check_agent(&mut checks, id, version, inline);
        } else {
            let none = id.is_none() && version.is_none() && inline.is_none();
            let message = "an agent is named only where its model writes a summary";
            checks.require(none, "/agent_id", "invalid_value", message);
        }
        checks.finish()
    }

    fn how(self) -> Shorter {
        match (self.strategy, self.summary) {
            (CompactStrategy::DropToolOutput, _) => Shorter::WithoutToolOutput,
            (CompactStrategy::Summarize, Some(text)) => Shorter::Told(text),
            (CompactStrategy::Summarize, None) => {
                let agent = which_agent(self.agent_id, self.agent_version, self.agent);
                Shorter::Summarised(agent)
            }
        }
    }

    fn of(
        self,
        caller: &Caller,
        thread: Thread,
        write: OperatorWrite,
    ) -> Result<CompactThread, AgentlingError> {
        self.check()?;
        let through_seq = self.through_seq;
        let how = self.how();
        // A model is asked, which takes what running an agent takes.
        if matches!(how, Shorter::Summarised(_)) && !caller.may(Scope::RunsWrite) {
            return Err(AgentlingError::Forbidden { required: Scope::RunsWrite });
        }
        Ok(CompactThread { thread, how, through_seq, write })
    }
}

/// Tell a thread in a shorter form
///
/// From the next run on a model reads a summary in place of the steps up to `through_seq`, or these
/// steps without what their tools gave back; what the operator said in the system voice stays. The
/// steps stay stored and listed. A summary that an agent's model writes takes the scope `runs:write`
/// as well; it is written within the request and the agent's `model_timeout_ms`, and the tokens it took
/// are in the step. A caller who goes away before changes nothing. While a run is active nothing can be
/// compacted, and when anything is added to the thread meanwhile the summary is not written.
#[utoipa::path(post, path = "/v1/threads/{thread_id}/compact", tag = "threads",
    operation_id = "threads_compact",
    params(("thread_id" = String, Path, description = "The thread"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the thread seen"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request one; 1–255 visible ASCII characters, remembered for 24 hours")),
    request_body = NewCompaction,
    responses((status = 201, description = "The step", body = StepView)),
    extensions(("x-problems" = json!(["thread-busy", "version-conflict", "nothing-to-compact",
        "unknown-agent", "gone", "model-error", "model-timeout", "tool-name-conflict",
        "invalid-tool-schema", "schema-too-complex", "remote-ref-forbidden", "egress-denied",
        "invalid-header-name", "draining"]))))]
pub(super) async fn compact(
    State(app): State<AppState>,
    caller: Scoped<MemoryWrite>,
    PathId(id): PathId<ThreadId>,
    if_match: IfMatch,
    Keyed(Body(new), key): Keyed<Body<NewCompaction>>,
) -> Result<Reply<StepView>, Problem> {
    if let Some(step) = led_to(&app, &caller, key.as_ref()).await? {
        return told_again(&app, &caller, step).await;
    }
    let thread = find(&app, &caller, id).await?;
    if_match.check(&view::etag(&thread))?;
    let write = operator_write(&app, (&if_match, &thread), key);
    let asked = new.of(&caller, thread, write)?;
    let step = app.engine.compact(&caller.tenant, asked).await;
    let step = step.map_err(|error| refusal(&if_match, error))?;
    let step = step.ok_or_else(Problem::not_found)?;
    told(&app, &caller, step).await
}

fn refusal(if_match: &IfMatch, error: AgentlingError) -> AgentlingError {
    match error {
        AgentlingError::Store(error) => if_match.explain(error),
        error => error,
    }
}
