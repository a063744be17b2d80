//! Extractors: what a handler takes, already checked. Every rejection is a problem.

mod body;
mod checks;
mod headers;
mod json;
mod keyed;
mod markdown;
mod params;
mod pointer;
mod query;
mod shape;
#[cfg(test)]
mod tests;

pub use body::{
    Body, Bounded, Bounds, EmptyObject, HashedBody, LargeBody, LargeText, OptionalBody,
};
pub use checks::Checks;
pub use headers::{IdempotencyKey, IfMatch, IfNoneMatch, LastEventId, Prefer};
pub(super) use json::too_deep;
pub use keyed::Keyed;
pub use markdown::JsonOrMarkdown;
pub use params::{PathId, PathIdAndName, PathIdAndNth, PathIds, PathPair};
pub use query::{ListParams, PageParams, Query, in_order};
