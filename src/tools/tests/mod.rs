//! Tests of the layer, against real servers on loopback.

mod body;
mod hostile;
mod http;
mod memory;
mod plan;
mod response;
mod schema;
mod server;
mod skills;
mod spec;
mod template;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::secrets::NoSecrets;
use super::{CallRequest, Toolbox};
use crate::clock::Clock;
use crate::domain::agent::{AgentSpec, Metadata};
use crate::domain::id::{CallId, TenantId};
use crate::domain::message::Reply;
use crate::egress::EgressPolicy;

/// A clock that is one second later at every look.
#[derive(Debug, Default)]
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp(self.0.fetch_add(1, Ordering::Relaxed), 0).unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

fn toolbox(allow: &[String]) -> Toolbox {
    let policy = EgressPolicy::new(allow, false).unwrap();
    Toolbox::new(Arc::new(policy), Arc::new(Ticking::default()), Arc::new(NoSecrets)).unwrap()
}

/// An agent with these tools and these further fields.
fn agent(tools: &Value, fields: &Value) -> AgentSpec {
    let mut document = json!({
        "name": "tester",
        "model": {"provider": "scripted", "name": "script"},
        "tools": tools,
    });
    for (key, value) in fields.as_object().unwrap() {
        document[key] = value.clone();
    }
    serde_json::from_value(document).unwrap()
}

/// A tool with these parameters' properties at a URL, and these further fields.
fn tool(url: &str, properties: &Value, fields: &Value) -> Value {
    let mut document = json!({
        "kind": "http",
        "name": "probe",
        "parameters": {"type": "object", "properties": properties},
        "url": url,
    });
    for (key, value) in fields.as_object().unwrap() {
        document[key] = value.clone();
    }
    document
}

fn request(name: &str, arguments: &Value) -> CallRequest {
    CallRequest {
        tenant: TenantId::default(),
        call_id: CallId("call_1".to_owned()),
        name: name.to_owned(),
        arguments: arguments.to_string(),
        attempt: 1,
        epoch: 7,
        labels: Metadata::new(),
    }
}

/// A reply that asks for these calls.
fn reply(calls: &[(&str, &str)]) -> Reply {
    let parts: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(index, (name, arguments))| {
            json!({
                "part_kind": "tool_call",
                "tool_call_id": format!("call_{index}"),
                "name": name,
                "arguments": arguments,
            })
        })
        .collect();
    serde_json::from_value(json!({"state": "complete", "parts": parts})).unwrap()
}
