//! Runs over HTTP.

mod create;
mod idempotency;
mod messages;
mod model_faults;
mod rules;
mod steer;
mod tool_rules;
mod watch;
