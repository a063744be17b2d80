//! Runs over HTTP.

mod approvals;
mod create;
mod delete;
mod diff;
mod files;
mod idempotency;
mod messages;
mod model_faults;
mod parallel;
mod profiles;
mod replay;
mod resolution;
mod rules;
mod steer;
mod sub_runs;
mod tool_files;
mod tool_results;
mod tool_rules;
mod watch;
