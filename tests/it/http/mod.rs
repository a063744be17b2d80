//! HTTP in, HTTP out.

mod journey;
mod runs;
