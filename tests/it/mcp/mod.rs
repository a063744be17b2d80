//! Tools of MCP servers that others wrote: the reference servers, and one made with the Python package.

mod calls;
mod loss;
mod pins;
mod resource;
mod stdio;

use serde_json::{Value, json};

/// All tools of the server that is registered as `s`, whose calls in doubt are told to the model.
fn all() -> Value {
    json!([{"kind": "mcp", "server": "s", "rules": {"on_in_doubt": "observe"}}])
}

/// The same with calls that may be repeated.
fn repeatable() -> Value {
    json!([{"kind": "mcp", "server": "s", "rules": {"effect": "idempotent"}}])
}
