//! Runs over HTTP.

mod create;
