//! Several servers on one database: leases, fairness between tenants, hints, drains.

mod drain;
mod fairness;
mod formats;
mod hints;
mod leases;
mod load;
mod log;
mod replica;

use serde_json::{Value, json};

use crate::support::{FakeTools, tool};

/// A fake tool that takes a number.
fn fake(tools: &FakeTools, name: &str, effect: &str) -> Value {
    tool(tools, name, effect, &json!({"type": "object", "properties": {"n": {"type": "integer"}}}))
}

/// How often a tool was called.
fn times(tools: &FakeTools, name: &str) -> usize {
    tools.seen().iter().filter(|call| call.tool == name).count()
}
