//! What tests are made with: a real Postgres, a real server, fake peers that speak the real wire.

mod app;
mod child;
mod clock;
mod cluster;
mod faults;
mod held_model;
mod history;
mod invariants;
mod keys;
mod look;
mod model;
mod normal;
mod raw;
mod replay;
mod seed;
mod sse;
mod stored;
mod tools;

pub(crate) use app::{Answer, TestApp, config_at, test_config, tool, with_json};
pub(crate) use child::{Child, Errand};
pub(crate) use clock::ManualClock;
pub(crate) use cluster::{TestDb, open_to_all, search_path};
pub(crate) use faults::{Commits, DieAt, PanicOnce};
pub(crate) use held_model::{HeldModel, Piece};
pub(crate) use history::history;
pub(crate) use invariants::assert_invariants;
pub(crate) use keys::{mint_key, mint_key_until};
pub(crate) use look::{count, execute, picture, until};
pub(crate) use model::{FakeModel, ModelReply, ModelRequest};
pub(crate) use normal::normalised;
pub(crate) use raw::send_raw;
pub(crate) use replay::{Recording, Replay};
pub(crate) use seed::{accepted, agent_with, calling, claimed, new_run, request, saying, uuid};
pub(crate) use sse::{SseEvent, SseReader, read_stream, watch_stream};
pub(crate) use stored::stored;
pub(crate) use tools::FakeTools;
