//! Replies: what a handler gives back. The only place that names axum's JSON.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, ETAG, LOCATION};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::page::Page;

/// A view of a resource, with its status and headers.
#[derive(Debug)]
pub struct Reply<T> {
    status: StatusCode,
    view: T,
    headers: Vec<(HeaderName, String)>,
}

impl<T> Reply<T> {
    const fn new(status: StatusCode, view: T) -> Self {
        Self { status, view, headers: Vec::new() }
    }

    /// 200.
    pub const fn ok(view: T) -> Self {
        Self::new(StatusCode::OK, view)
    }

    /// 201, and where the new thing is.
    pub fn created(location: impl Into<String>, view: T) -> Self {
        Self::new(StatusCode::CREATED, view).header(LOCATION, location.into())
    }

    /// 202, and where to look for the outcome.
    pub fn accepted(location: impl Into<String>, view: T) -> Self {
        Self::new(StatusCode::ACCEPTED, view).header(LOCATION, location.into())
    }

    /// The state of the resource, quotes included.
    #[must_use]
    pub fn etag(self, tag: impl Into<String>) -> Self {
        self.header(ETAG, tag.into())
    }

    /// Says whether the reply repeats an earlier one with the same idempotency key.
    #[must_use]
    pub fn replayed(self, replayed: bool) -> Self {
        if replayed {
            self.header(HeaderName::from_static("idempotency-replayed"), "true".to_owned())
        } else {
            self
        }
    }

    fn header(mut self, name: HeaderName, value: String) -> Self {
        self.headers.push((name, value));
        self
    }
}

impl<T: Serialize> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.view)).into_response();
        for (name, value) in self.headers {
            // Values are ids, paths and tags of our own, so they are always valid.
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

/// Says of any response whether it repeats an earlier one with the same idempotency key.
pub fn replayed(mut response: Response, is_replay: bool) -> Response {
    if is_replay {
        let name = HeaderName::from_static("idempotency-replayed");
        response.headers_mut().insert(name, HeaderValue::from_static("true"));
    }
    response
}

/// 200 with bytes as they are, and their `ETag`, quotes included, where they have one.
pub fn raw(media_type: &'static str, bytes: Vec<u8>, tag: Option<&str>) -> Response {
    let mut response = Response::new(Body::from(bytes));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    tagged(response, tag)
}

/// 304: the caller has it. The tag is the one with quotes that they sent.
pub fn not_modified(tag: &str) -> Response {
    tagged(StatusCode::NOT_MODIFIED.into_response(), Some(tag))
}

fn tagged(mut response: Response, tag: Option<&str>) -> Response {
    if let Some(tag) = tag.and_then(|tag| HeaderValue::from_str(tag).ok()) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

/// 204: done, nothing to say.
#[derive(Debug, Clone, Copy)]
pub struct NoContent;

impl IntoResponse for NoContent {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Page)]
pub struct PageView<T> {
    /// The entries.
    pub items: Vec<T>,
    /// Pass it as `cursor` to get the next page; null on the last one.
    pub next_cursor: Option<String>,
}

impl<T> PageView<T> {
    /// A page whose key is sealed into a cursor.
    pub fn of<K>(page: Page<T, K>, seal: impl FnOnce(&K) -> String) -> Self {
        Self { next_cursor: page.next.as_ref().map(seal), items: page.items }
    }
}
