//! HTTP in, HTTP out.

mod runs;
