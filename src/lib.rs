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
//! | [`config`], [`clock`] | settings; the one source of time and ids | everything else |
//! | [`store`] | Postgres; the only SQL | HTTP, providers, tools |
//! | [`provider`] | sends wire bytes to a model | the loop, the database |
//! | [`tools`] | runs tools; always yields an outcome | the loop, the database |
//! | [`error`] | the umbrella over the layers' errors | how an error becomes a status |
//! | [`engine`] | claims runs and performs effects | HTTP |
//! | [`http`] | endpoints, problems, streams | SQL, providers, tools |
//! | [`app`], [`telemetry`] | composition | – |
#![forbid(unsafe_code)]

pub mod app;
pub mod clock;
pub mod config;
pub mod domain;
pub mod engine;
pub mod error;
pub mod http;
pub mod machine;
pub mod provider;
pub mod render;
pub mod store;
pub mod telemetry;
pub mod tools;
pub mod wire;
