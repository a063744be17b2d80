//! Runs over HTTP.

mod create;
mod delete;
mod diff;
mod files;
mod idempotency;
mod messages;
mod model_faults;
mod profiles;
mod replay;
mod rules;
mod steer;
mod tool_files;
mod tool_rules;
mod watch;
