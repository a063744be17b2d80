//! `POST /v1/keys/{key_id}/rotate`.

use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, Utc};

use super::new_key::RotateKey;
use super::view::{KeyView, made_reply};
use crate::domain::id::KeyId;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{AdminOnly, Scoped};
use crate::http::extract::{Keyed, OptionalBody, PathId};
use crate::http::problem::Problem;
use crate::store::keys::{self, StoredKey};

/// Rotate a key
///
/// A new key with the name and the scopes of this one takes its place. Both work until the overlap is over;
/// then this one has expired. A budget of this key is not one of the new key. The text of the new key is in
/// this answer and nowhere else; a repeated request is answered as one for a new key is. A key that was
/// revoked or has expired is gone.
#[utoipa::path(post, path = "/v1/keys/{key_id}/rotate", tag = "keys", operation_id = "keys_rotate",
    params(("key_id" = KeyId, Path, description = "The key"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request lead to the same key; 1–255 visible ASCII characters, remembered for 24 hours")),
    request_body = Option<RotateKey>,
    responses((status = 201, description = "The new key, with its text", body = KeyView)),
    extensions(("x-problems" = json!(["gone"]))))]
pub(super) async fn rotate(
    State(app): State<AppState>,
    caller: Scoped<AdminOnly>,
    PathId(id): PathId<KeyId>,
    Keyed(OptionalBody(how), once): Keyed<OptionalBody<RotateKey>>,
) -> Result<Response, Problem> {
    let (how, now) = (how.unwrap_or_default(), app.clock.now());
    how.check(now)?;
    let (key, hash) = app.auth.mint(app.ids.as_ref())?;
    let successor = |old: &StoredKey| successor(old, (key.id(), hash), (now, how.expires_at));
    let (which, times) = ((&caller.tenant, id), (now, how.until(now)));
    let rotated = keys::rotate(&app.store, which, times, (successor, once.as_ref())).await?;
    app.auth.forget(id);
    let made = rotated.ok_or_else(Problem::not_found)?;
    let made = made.map_err(|_| AgentlingError::Gone { kind: "key" })?;
    Ok(made_reply(made, &key))
}

fn successor(
    old: &StoredKey,
    (id, hash): (KeyId, Vec<u8>),
    (now, end): (DateTime<Utc>, Option<DateTime<Utc>>),
) -> StoredKey {
    let lifetime = old.expires_at.map(|end| end - old.created_at);
    StoredKey {
        id,
        hash,
        created_at: now,
        expires_at: end.or_else(|| lifetime.map(|lifetime| now + lifetime)),
        revoked_at: None,
        replaces: Some(old.id),
        ..old.clone()
    }
}
