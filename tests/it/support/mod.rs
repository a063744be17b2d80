//! What tests are made with: a real Postgres, a real server, fake peers that speak the real wire.

mod again;
mod app;
mod capture;
mod child;
mod clock;
mod cluster;
mod endless;
mod faults;
mod fickle;
mod held_model;
mod history;
mod invariants;
mod keys;
mod ledger;
mod local_model;
mod look;
mod model;
mod normal;
mod own_cluster;
mod pg_proxy;
mod raw;
mod replay;
mod seed;
mod sse;
mod stored;
mod tags;
mod tools;

pub(crate) use app::{Answer, TestApp, config_at, test_config, tool, with_json};
pub(crate) use capture::Capture;
pub(crate) use child::{Child, Errand};
pub(crate) use clock::ManualClock;
pub(crate) use cluster::{TestDb, open_to_all, search_path};
pub(crate) use endless::{Endless, EndlessAnswer};
pub(crate) use faults::{Commits, DieAt, Gone, PanicOnce, TellFenced};
pub(crate) use fickle::Fickle;
pub(crate) use held_model::{HeldModel, Piece};
pub(crate) use history::history;
pub(crate) use invariants::{assert_called, assert_invariants};
pub(crate) use keys::{mint_key, mint_key_until};
pub(crate) use ledger::{assert_recorded, path_of, requests_of, text_from};
pub(crate) use local_model::local_model;
pub(crate) use look::{count, execute, picture, until};
pub(crate) use model::{FakeModel, ModelReply, ModelRequest};
pub(crate) use normal::normalised;
pub(crate) use own_cluster::OwnCluster;
pub(crate) use pg_proxy::{Harm, PgProxy};
pub(crate) use raw::send_raw;
pub(crate) use replay::{Recording, Replay};
pub(crate) use seed::{accepted, agent_with, calling, claimed, new_run, request, saying, uuid};
pub(crate) use sse::{
    SseEvent, SseReader, durable, events_in, listed, read_stream, text_of, watch_stream,
};
pub(crate) use stored::stored;
pub(crate) use tags::tags_in;
pub(crate) use tools::FakeTools;
