//! What tests are made with: a real Postgres, a real server, fake peers that speak the real wire.

mod again;
mod app;
mod capture;
mod child;
mod clock;
mod cluster;
mod collector;
mod dns;
mod endless;
mod fake_mcp;
mod faults;
mod fickle;
mod frames;
mod held_model;
mod history;
mod invariants;
mod issuer;
mod keys;
mod ledger;
mod local_model;
mod log;
mod look;
mod mcp;
mod model;
mod normal;
mod obeying;
mod own_cluster;
mod pg_proxy;
mod raw;
mod replay;
mod seed;
mod sse;
mod stored;
mod tags;
mod tools;
mod trap;
mod waiting;

pub(crate) use app::{Answer, TestApp, config_at, test_config, tool, with_json};
pub(crate) use capture::Capture;
pub(crate) use child::{Child, Errand};
pub(crate) use clock::ManualClock;
pub(crate) use cluster::{SYSTEM_ROLE, TENANT_ROLE, TestDb, open_to_all, search_path};
pub(crate) use collector::{Collector, Traced};
pub(crate) use dns::{FakeDns, Question, Record};
pub(crate) use endless::{Endless, EndlessAnswer};
pub(crate) use fake_mcp::{Call, FakeMcp, tool_listed};
pub(crate) use faults::{Commits, DieAt, Gone, PanicOnce, TellFenced};
pub(crate) use fickle::Fickle;
pub(crate) use frames::{
    CONTINUATION, END_HEADERS, END_STREAM, Frame, Frames, GOAWAY, HEADERS, RST_STREAM, frame,
    request as h2_request,
};
pub(crate) use held_model::{HeldModel, Piece};
pub(crate) use history::history;
pub(crate) use invariants::{assert_called, assert_invariants};
pub(crate) use issuer::{FakeIssuer, IssuerKey, forged};
pub(crate) use keys::{mint_key, mint_key_until};
pub(crate) use ledger::{assert_recorded, path_of, requests_of, text_from};
pub(crate) use local_model::local_model;
pub(crate) use log::Log;
pub(crate) use look::{count, execute, picture, picture_everything, picture_of, until};
pub(crate) use mcp::{McpServer, mcp_agent, mcp_servers, npm_server, python, script};
pub(crate) use model::{FakeModel, ModelReply, ModelRequest};
pub(crate) use normal::normalised;
pub(crate) use obeying::ObeyingModel;
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
pub(crate) use trap::Trap;
pub(crate) use waiting::{answer_calls, client_tool, race, run_path, waiting_calls};
