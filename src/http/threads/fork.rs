//! `POST /v1/threads/{thread_id}/fork`.

use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{ThreadView, created, find};
use crate::domain::agent::Metadata;
use crate::domain::caller::{Caller, Scope};
use crate::domain::id::{StepId, ThreadId};
use crate::domain::step::InputPart;
use crate::domain::thread::ForkPoint;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{MemoryWrite, Scoped};
use crate::http::extract::{Body, Checks, Keyed, PathId};
use crate::http::problem::Problem;
use crate::http::repeats::led_to;
use crate::http::reply::Reply;
use crate::http::runs::new_run::{check_addresses, check_input};
use crate::store::forks::{self, Edit, Forked, MAX_SEGMENTS, NewFork, Said};

/// The most steps that a fork says otherwise.
const MAX_EDITS: usize = 20;

/// A fork to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewForkBody {
    /// `seq` of the last step to share.
    #[schema(minimum = 1, examples(3))]
    at_seq: i64,
    /// What the fork says in place of shared steps: at most 20, each of another step.
    #[serde(default)]
    #[schema(max_items = 20)]
    edits: Vec<ForkEdit>,
    /// The caller's own labels; by default those of the thread.
    #[serde(default)]
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    metadata: Option<Metadata>,
}

/// What a fork says in place of a shared step, in the voice of that step. Exactly one of `content` and
/// `parts` is given.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ForkEdit {
    /// `seq` of the step, which is a `task` or a `system` step.
    #[schema(minimum = 1, examples(1))]
    seq: i64,
    /// A text.
    #[serde(default)]
    content: Option<String>,
    /// Texts and files, in place of a `task`.
    #[serde(default)]
    parts: Option<Vec<InputPart>>,
}

/// Fork a thread
///
/// A new thread that goes on from a step of this one. The steps up to it are shared, not copied: they keep
/// their ids and numbers, and name the thread that they were appended to. What happens to either thread
/// from then on is not seen in the other one. How the history is framed stays as it is.
///
/// `edits` say otherwise what a caller or an operator said: only `task` and `system` steps can be edited,
/// since replies, outcomes and what was derived of them are what happened, and some are sealed by their
/// provider. The steps of this thread, its runs and their ledger stay as they are; an edit is a step of the
/// fork. One in the system voice takes the scope `memory:system` as well.
///
/// Answers `thread-busy` while calls of the steps to share are under way. A thread that is shared cannot be
/// deleted before its forks.
#[utoipa::path(post, path = "/v1/threads/{thread_id}/fork", tag = "threads",
    operation_id = "threads_fork",
    params(("thread_id" = String, Path, description = "The thread"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request one; 1–255 visible ASCII characters, remembered for 24 hours")),
    request_body = NewForkBody,
    responses((status = 201, description = "The new thread", body = ThreadView)),
    extensions(("x-problems" = json!(["thread-busy"]))))]
pub(super) async fn fork(
    State(app): State<AppState>,
    caller: Scoped<MemoryWrite>,
    PathId(id): PathId<ThreadId>,
    Keyed(Body(new), key): Keyed<Body<NewForkBody>>,
) -> Result<Reply<ThreadView>, Problem> {
    if let Some(id) = led_to(&app, &caller, key.as_ref()).await? {
        return Ok(created(&app, find(&app, &caller, id).await?).replayed(true));
    }
    let new = NewFork { key, ..new.fork(&app, &caller, id)? };
    match forks::fork(&app.store, &caller.tenant, new).await? {
        Forked::Created(thread) => Ok(created(&app, thread)),
        refused => Err(refusal(&refused).into()),
    }
}

/// Why there is no fork.
fn refusal(refused: &Forked) -> AgentlingError {
    match refused {
        Forked::Created(_) | Forked::NoSuchThread => AgentlingError::NotFound { kind: "thread" },
        Forked::NeedsOperator => AgentlingError::Forbidden { required: Scope::MemorySystem },
        Forked::NoSuchStep(last) => {
            let message = format!("must be the `seq` of a step of the thread, 1–{last}");
            AgentlingError::invalid("/at_seq", "out_of_range", &message)
        }
        Forked::NotEditable(place, kind) => {
            let message = format!("a step of kind `{kind}` cannot be edited so");
            AgentlingError::invalid(&format!("/edits/{place}"), "invalid_value", &message)
        }
        Forked::Erased(place) => {
            let pointer = format!("/edits/{place}/seq");
            AgentlingError::invalid(&pointer, "invalid_value", "names a step that was erased")
        }
        Forked::TooManySegments => {
            let message = format!("would be put together from more than {MAX_SEGMENTS} stretches");
            AgentlingError::invalid("/edits", "too_many", &message)
        }
    }
}

impl NewForkBody {
    /// Checks everything that can be known without looking anything up.
    fn fork(
        mut self,
        app: &AppState,
        caller: &Caller,
        thread_id: ThreadId,
    ) -> Result<NewFork, AgentlingError> {
        self.check()?;
        for (place, edit) in self.edits.iter().enumerate() {
            let parts = edit.parts.as_deref().unwrap_or_default();
            check_addresses(&app.engine, &format!("/edits/{place}/parts"), parts)?;
        }
        self.edits.sort_by_key(|edit| edit.seq);
        Ok(NewFork {
            id: ThreadId::from(app.ids.sortable()),
            origin: ForkPoint { thread_id, at_seq: self.at_seq },
            edits: self.edits.into_iter().filter_map(|edit| edit.edit(app)).collect(),
            as_operator: caller.may(Scope::MemorySystem),
            metadata: self.metadata,
            op_id: app.ids.random(),
            now: app.clock.now(),
            key: None,
        })
    }

    fn check(&self) -> Result<(), AgentlingError> {
        let mut checks = Checks::new();
        checks.require(self.at_seq >= 1, "/at_seq", "out_of_range", "must be at least 1");
        let message = format!("must have at most {MAX_EDITS} entries");
        checks.require(self.edits.len() <= MAX_EDITS, "/edits", "too_many", &message);
        for (place, edit) in self.edits.iter().enumerate() {
            let at = |member: &str| format!("/edits/{place}{member}");
            let is_shared = (1..=self.at_seq).contains(&edit.seq);
            checks.require(is_shared, &at("/seq"), "out_of_range", "must be 1 to `at_seq`");
            let before = self.edits.iter().take(place);
            let is_new = !before.into_iter().any(|other| other.seq == edit.seq);
            checks.require(is_new, &at("/seq"), "invalid_value", "is edited twice");
            edit.check(&mut checks, &at(""));
        }
        if let Some(metadata) = &self.metadata {
            checks.metadata("/metadata", metadata);
        }
        checks.finish()
    }
}

impl ForkEdit {
    fn check(&self, checks: &mut Checks, at: &str) {
        let one = self.content.is_some() != self.parts.is_some();
        let message = "exactly one of `content` and `parts` must be given";
        checks.require(one, at, "invalid_value", message);
        if let Some(text) = &self.content {
            checks.not_blank(&format!("{at}/content"), text);
        }
        if let Some(parts) = &self.parts {
            check_input(checks, &format!("{at}/parts"), parts);
        }
    }

    fn edit(self, app: &AppState) -> Option<Edit> {
        let said = self.content.map(Said::Text).or_else(|| self.parts.map(Said::Parts))?;
        Some(Edit { seq: self.seq, step_id: StepId::from(app.ids.sortable()), said })
    }
}
