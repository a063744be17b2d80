//! What tests are made with: a real Postgres, a real server, fake peers that speak the real wire.

mod app;
mod child;
mod cluster;
mod faults;
mod history;
mod invariants;
mod keys;
mod look;
mod seed;
mod model;
mod replay;
mod sse;
mod tools;

pub(crate) use app::{Answer, TestApp, config_at, test_config, tool};
pub(crate) use child::{Child, Errand};
pub(crate) use cluster::{TestDb, open_to_all, search_path};
pub(crate) use faults::{Commits, DieAt, PanicOnce};
pub(crate) use history::history;
pub(crate) use invariants::assert_invariants;
pub(crate) use keys::mint_key;
pub(crate) use look::{count, execute, picture, until};
pub(crate) use seed::{accepted, agent_with, calling, claimed, new_run, request, saying, uuid};
pub(crate) use model::{FakeModel, ModelReply, ModelRequest};
pub(crate) use replay::{Recording, Replay};
pub(crate) use sse::{SseEvent, read_stream, watch_stream};
pub(crate) use tools::{FakeTools, ToolCallSeen};
