//! The engine against a real Postgres and fake peers.
