//! Keys as callers see them.

use axum::response::{IntoResponse as _, Response};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::caller::Scope;
use crate::domain::id::KeyId;
use crate::http::auth::ApiKey;
use crate::http::reply::Reply;
use crate::http::time::Time;
use crate::store::keys::{Made, StoredKey};

/// An API key.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Key)]
pub(super) struct KeyView {
    /// Its id.
    id: KeyId,
    /// What people call it.
    name: String,
    /// What it allows.
    scopes: Vec<Scope>,
    /// When it was made.
    created_at: Time,
    /// When it stops working.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<Time>,
    /// The key that it was made from when that was rotated.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<KeyId>,
    /// The key itself, to be sent as `Authorization: Bearer …`. It is in the answer that makes it and
    /// nowhere else: the answer to a repeated request is without it.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "revealed")]
    #[schema(value_type = Option<String>,
        examples("ag_0198f2c4a1b27cde8f00112233445566_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYq"))]
    key: Option<SecretString>,
}

impl From<StoredKey> for KeyView {
    fn from(key: StoredKey) -> Self {
        Self {
            id: key.id,
            name: key.name,
            scopes: key.scopes,
            created_at: key.created_at.into(),
            expires_at: key.expires_at.map(Time::from),
            revoked_at: key.revoked_at.map(Time::from),
            replaces: key.replaces,
            key: None,
        }
    }
}

/// The one place where the text of a key is written into an answer.
#[expect(clippy::ref_option, reason = "serde hands fields over so")]
fn revealed<S: serde::Serializer>(
    key: &Option<SecretString>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    key.as_ref().map(SecretString::expose_secret).serialize(serializer)
}

/// 201 with a key: with its text only where it was made just now, because that is stored nowhere.
pub(super) fn made_reply(made: Made, key: &ApiKey) -> Response {
    let (stored, text) = match made {
        Made::New(stored) => (stored, Some(key.reveal())),
        Made::Before(stored) => (stored, None),
    };
    let (location, is_replay) = (format!("/v1/keys/{}", stored.id), text.is_none());
    let view = KeyView { key: text, ..stored.into() };
    Reply::created(location, view).replayed(is_replay).into_response()
}
