//! Runs over HTTP.

mod create;
mod model_faults;
