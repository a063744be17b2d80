//! `POST /v1/threads/{thread_id}/steps`.

use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{find, operator_write, told, told_again, view};
use crate::domain::id::ThreadId;
use crate::domain::step::{StepContent, SystemStep};
use crate::http::AppState;
use crate::http::auth::{MemorySystem, Scoped};
use crate::http::extract::{Body, Checks, IfMatch, Keyed, PathId};
use crate::http::problem::Problem;
use crate::http::repeats::led_to;
use crate::http::reply::Reply;
use crate::http::steps::view::StepView;
use crate::store::operator;

/// What can be appended.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum NewStepKind {
    /// Text in the system voice.
    System,
}

/// A step to append.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewStep {
    /// What it is.
    kind: NewStepKind,
    /// The text, which is not blank.
    #[schema(pattern = r"\S")]
    text: String,
}

/// Say something to the model in the system voice
///
/// The step stands behind the last one, and the model reads it with the next run. While a run is
/// active nothing can be appended.
#[utoipa::path(post, path = "/v1/threads/{thread_id}/steps", tag = "threads",
    operation_id = "threads_append",
    params(("thread_id" = String, Path, description = "The thread"),
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the thread seen"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request one; 1–255 visible ASCII characters, remembered for 24 hours")),
    request_body = NewStep,
    responses((status = 201, description = "The step", body = StepView)),
    extensions(("x-problems" = json!(["thread-busy"]))))]
pub(super) async fn append(
    State(app): State<AppState>,
    caller: Scoped<MemorySystem>,
    PathId(id): PathId<ThreadId>,
    if_match: IfMatch,
    Keyed(Body(new), key): Keyed<Body<NewStep>>,
) -> Result<Reply<StepView>, Problem> {
    if let Some(step) = led_to(&app, &caller, key.as_ref()).await? {
        return told_again(&app, &caller, step).await;
    }
    let thread = find(&app, &caller, id).await?;
    if_match.check(&view::etag(&thread))?;
    let mut checks = Checks::new();
    checks.not_blank("/text", &new.text);
    checks.finish()?;
    let write = operator_write(&app, (&if_match, &thread), key);
    let NewStepKind::System = new.kind;
    let content = StepContent::System(SystemStep { text: new.text });
    let appended =
        operator::append(&app.store, &caller.tenant, id, (content, Vec::new()), write).await;
    let step = appended.map_err(|error| if_match.explain(error))?;
    let step = step.ok_or_else(Problem::not_found)?;
    told(&app, &caller, step).await
}
