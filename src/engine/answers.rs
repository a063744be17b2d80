//! Answers of callers to calls that wait.

use super::{Context, masks};
use crate::domain::id::{CallId, KeyId, RunId, TenantId};
use crate::domain::run::Run;
use crate::domain::wait::{CallAnswer, WaitReason};
use crate::error::AgentlingError;
use crate::store::answers::{self, Given, NewAnswers};

/// What a caller answers to calls of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// What the calls wait for.
    pub reason: WaitReason,
    /// The answers, one a call.
    pub answers: Vec<(CallId, CallAnswer)>,
    /// The key that they came with; `None` for the operator's own.
    pub key: Option<KeyId>,
}

/// Puts answers into the inbox of a run. Results may be posted again as they were; a decision or a
/// resolution is made once, also the same. A secret that the run knows is stored in none of them.
pub(super) async fn give(
    context: &Context,
    tenant: &TenantId,
    run: RunId,
    given: Answers,
) -> Result<Run, AgentlingError> {
    let Answers { reason, mut answers, key } = given;
    if answers.iter().any(|(_, answer)| masks::says_something(answer)) {
        // The same answer becomes the same once more, so that it may be repeated.
        let mask = masks::of_run(context, tenant, run).await?;
        for (_, answer) in &mut answers {
            mask.answer(answer);
        }
    }
    for (_, answer) in &mut answers {
        context.parts.toolbox.scrub(answer);
    }
    let may_repeat = reason == WaitReason::ToolResults;
    let new = NewAnswers { reason, answers, may_repeat, key, now: context.now() };
    match answers::give(context.store(), tenant, run, &new).await? {
        Given::Taken(run) => {
            context.claimable();
            Ok(run)
        }
        Given::NoSuchRun => Err(AgentlingError::NotFound { kind: "run" }),
        Given::UnknownCall(call_id) => Err(AgentlingError::UnknownToolCall { call_id }),
        Given::AlreadyAnswered(call_id) => Err(AgentlingError::ToolCallAlreadyAnswered { call_id }),
        Given::NotWaiting(run) => Err(AgentlingError::RunNotWaiting { status: run.facts.status }),
    }
}
