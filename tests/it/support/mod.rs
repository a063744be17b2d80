//! What tests are made with: a real Postgres, a real server, fake peers that speak the real wire.

mod app;
mod cluster;
mod keys;
mod model;
mod normal;
mod sse;
mod tools;

pub(crate) use app::{Answer, TestApp, test_config, tool, with_json};
pub(crate) use cluster::TestDb;
pub(crate) use keys::mint_key;
pub(crate) use model::{FakeModel, Piece};
pub(crate) use normal::normalised;
pub(crate) use sse::{SseEvent, SseReader, read_stream};
pub(crate) use tools::{FakeTools, ToolCallSeen};
