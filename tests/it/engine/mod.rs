//! The engine against a real Postgres and fake peers.

mod model_keys;
mod observations;
mod requests;
