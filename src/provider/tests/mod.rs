//! Tests of the sender, and of the codecs against recorded traffic.

mod connections;
mod judge;
mod mock;
mod recorded;
mod scripted;
mod sender;
mod server;
mod shared;

pub(super) use server::spec;
