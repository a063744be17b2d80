//! `POST /v1/keys`.

use axum::extract::State;
use axum::response::Response;

use super::new_key::NewKey;
use super::view::{KeyView, made_reply};
use crate::http::AppState;
use crate::http::auth::{AdminOnly, Scoped};
use crate::http::extract::{Body, Keyed};
use crate::http::problem::Problem;
use crate::store::keys::{self, StoredKey};

/// Make a key
///
/// The key itself is in this answer and nowhere else. A request that is repeated with its `Idempotency-Key`
/// makes no second key and is answered without the first one's text: when the first answer was lost, revoke
/// the key and make another.
#[utoipa::path(post, path = "/v1/keys", tag = "keys", operation_id = "keys_create",
    request_body = NewKey,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request lead to the same key; 1–255 visible ASCII characters, remembered for 24 hours")),
    responses((status = 201, description = "The key, with its text", body = KeyView)))]
pub(super) async fn create(
    State(app): State<AppState>,
    caller: Scoped<AdminOnly>,
    Keyed(Body(new), once): Keyed<Body<NewKey>>,
) -> Result<Response, Problem> {
    let now = app.clock.now();
    new.check(now)?;
    let (key, hash) = app.auth.mint(app.ids.as_ref())?;
    let stored = StoredKey {
        id: key.id(),
        tenant: caller.tenant.clone(),
        name: new.name,
        hash,
        scopes: new.scopes.into_iter().collect(),
        created_at: now,
        expires_at: new.expires_at,
        revoked_at: None,
        replaces: None,
    };
    let made = keys::create(&app.store, stored, once.as_ref()).await?;
    Ok(made_reply(made, &key))
}
