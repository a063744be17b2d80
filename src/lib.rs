//! agentling: the agent server that can prove what the model saw and what the agent did.
//!
//! # The map
//!
//! A request goes one way: HTTP in → domain value → store (commit) → engine picks it up → machine
//! decides → render lowers → wire encodes → provider sends → wire decodes → machine → store →
//! events out. No layer calls back up: results return as values, live updates as rows and a wake-up.
//!
//! | layer | what it does | what it must not know |
//! |---|---|---|
//! | [`domain`] | the words of the service | the world: no clock, no IO, no database |
//! | [`machine`] | the agent loop as three total functions | tokio, time, SQL, HTTP |
//! | [`render`] | history and profile → provider-neutral prompt | providers' wire formats |
//! | [`wire`] | prompt → bytes, bytes → reply | sockets |
//! | [`instruments`] | metrics and spans of traces | who reads them |
//! | [`seal`] | seals secrets for storage | where they are stored and sent |
//! | [`config`], [`clock`] | settings; the one source of time and ids | everything else |
//! | [`egress`] | where outbound calls may go, and the clients that go nowhere else | what is called for |
//! | [`store`] | Postgres; the only SQL | HTTP, providers, tools |
//! | [`provider`] | sends wire bytes to a model | the loop, the database |
//! | [`tools`] | runs tools; always yields an outcome | the loop, the database |
//! | [`error`] | the umbrella over the layers' errors | how an error becomes a status |
//! | [`engine`] | claims runs and performs effects | HTTP |
//! | [`http`] | endpoints, problems, streams | SQL, providers, tools |
//! | [`app`], [`telemetry`] | composition | – |
//!
//! # What holds everywhere
//!
//! * A caller hears of nothing that is not committed. Between accept and answer, each step of a run is
//!   one guarded statement ([`store::journal`]): the lease, the place in the journal and the state of
//!   every call it moves are checked in it, or nothing of it happens.
//! * State is never stored. What is true of a run is the fold of its records ([`machine`]), so going
//!   on after a crash is not a second code path: load, fold, do what is due.
//! * What a tool does cannot fail a run: it ends as an outcome, and the model is told. What a caller
//!   must handle is an [`error::AgentlingError`] and leaves as a problem ([`http::problem`]).
//! * No connection is held while a model or a tool is waited for: none leaves [`store`].
//! * History is never edited: rendering, redaction and repair are functions of it.
//!
//! # A walk along one run
//!
//! `POST /v1/runs` is read and checked by extractors and becomes an [`engine::StartRun`]. The engine
//! writes the run, its task step and its first events in one transaction, and only then does the
//! handler answer. A worker claims the run: a random token and the next epoch are now its right to
//! write. The driver folds the records and asks the machine what is due: a model call. The history is
//! rendered to a prompt, encoded for the provider and sent; pieces of the reply go to watchers as they
//! arrive. The reply becomes an input, the machine decides what to write down, and one commit records
//! the step, its calls, the tokens and the events. Tools run, each outcome is a commit of its own, and
//! the last one also begins the next turn. The reply without calls, or a `final_answer`, ends the run
//! in the same commit. A watcher is woken and reads the events from the store, in order.
#![forbid(unsafe_code)]

pub mod app;
pub mod clock;
pub mod config;
pub mod domain;
pub mod egress;
pub mod engine;
pub mod error;
pub mod http;
pub mod instruments;
pub mod machine;
pub mod provider;
pub mod render;
pub mod seal;
pub mod store;
pub mod telemetry;
pub mod tools;
pub mod wire;
