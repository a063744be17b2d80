//! Runs over HTTP.

mod create;
mod idempotency;
mod rules;
mod steer;
mod tool_rules;
mod watch;
