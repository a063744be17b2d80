//! Bodies of requests that may be repeated under a key of the caller's.

use axum::extract::{FromRequest, FromRequestParts as _, MatchedPath, Request};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::body::{self, Bounded};
use super::headers::IdempotencyKey;
use crate::http::problem::Problem;
use crate::store::idempotency;

/// A body, and the key that its request came with: what is asked for under a key is done once.
#[derive(Debug)]
pub struct Keyed<B>(pub B, pub Option<idempotency::IdempotencyKey>);

impl<S, B> FromRequest<S> for Keyed<B>
where
    S: Send + Sync,
    B: FromRequest<S, Rejection = Problem> + Bounded,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let IdempotencyKey(key) = IdempotencyKey::from_request_parts(&mut parts, state).await?;
        let Some(key) = key else {
            let request = Request::from_parts(parts, body);
            return B::from_request(request, state).await.map(|body| Self(body, None));
        };
        let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
        let route = format!("{} {path}", parts.method);
        let request = Request::from_parts(parts.clone(), body);
        let bounds = B::bounds(&request);
        let text = body::read(request, bounds).await?;
        let asked = parts.uri.path_and_query().map_or("", |asked| asked.as_str());
        let request_hash = hash(asked, &text);
        let key = idempotency::IdempotencyKey { route, key, request_hash };
        let request = Request::from_parts(parts, text.into());
        B::from_request(request, state).await.map(|body| Self(body, Some(key)))
    }
}

/// The hash of what is asked for: which place, and what for. Of JSON, spelling and order do not count.
fn hash(asked: &str, text: &str) -> [u8; 32] {
    let mut hash = Sha256::new_with_prefix(asked);
    hash.update([0]);
    match serde_json::from_str::<Value>(text) {
        Ok(mut value) => {
            value.sort_all_objects();
            hash.update(value.to_string());
        }
        Err(_) => hash.update(text),
    }
    hash.finalize().into()
}
