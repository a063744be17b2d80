//! Tests of the sender, and of the codecs against recorded traffic.

mod judge;
mod recorded;
mod shared;
