//! Everything that needs Postgres, HTTP or a second process; modules mirror `src`.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on should say so and stop"
)]

mod canaries;
mod chaos;
mod commands;
mod engine;
mod faults;
mod http;
mod local_model;
mod mcp;
mod openapi;
mod providers;
mod readme;
mod store;
mod support;
