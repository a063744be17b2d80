//! What tests are made with: a real Postgres, a real server, fake peers that speak the real wire.

mod app;
mod cluster;
mod keys;
mod model;
mod replay;
mod sse;
mod tools;

pub(crate) use app::{Answer, TestApp, test_config, tool};
pub(crate) use cluster::TestDb;
pub(crate) use keys::mint_key;
pub(crate) use model::{FakeModel, ModelReply, ModelRequest};
pub(crate) use replay::{Recording, Replay};
pub(crate) use sse::{SseEvent, read_stream, watch_stream};
pub(crate) use tools::{FakeTools, ToolCallSeen};
