//! The OpenAPI document: made from the code, then brought into the shape that SDK generators read.

mod bounds;
mod check;
mod downgrade;
mod examples;
mod pages;
mod problems;
mod streams;
#[cfg(test)]
mod tests;
pub(crate) mod unions;

use serde_json::{Value, json};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::problem::ProblemView;
use super::runs::{DeltaView, SnapshotView};
use crate::domain::memory::Finding;

pub use check::findings;
pub use downgrade::to_3_0;
pub use problems::PROBLEMS;

/// What stands in the document before any endpoint adds to it.
#[derive(Debug, OpenApi)]
#[openapi(
    info(
        title = "agentling",
        description = "The agent server that can prove what the model saw and what the agent did.\n\n\
                       Errors answer with `application/problem+json`; `/problems` explains each kind.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    servers((url = "/", description = "This server")),
    tags(
        (name = "agents", description = "Immutable, versioned configurations"),
        (name = "threads", description = "Conversations that runs append to, and their memory"),
        (name = "memory", description = "Items that outlive threads, by namespace and key"),
        (name = "runs", description = "Durable executions on a thread"),
        (name = "steps", description = "The entries of a thread's history"),
        (name = "requests", description = "What was sent to models, and what came back"),
        (name = "prompts", description = "What a model would be sent, without asking it"),
        (name = "redaction", description = "What is kept from every way out of the server"),
        (name = "secrets", description = "What is sent to tools and models, and never told"),
        (name = "tools", description = "Tools by themselves"),
        (name = "mcp-servers", description = "MCP servers whose tools agents may use"),
        (name = "webhooks", description = "Endpoints that events of runs are told to"),
        (name = "schedules", description = "Runs that the clock starts"),
        (name = "skills", description = "Instructions and tools that agents load when a task calls for them"),
        (name = "budgets", description = "What runs may use up"),
        (name = "usage", description = "What calls of models took"),
        (name = "keys", description = "API keys"),
        (name = "health", description = "Whether the server works and takes work")
    ),
    components(schemas(ProblemView, Finding, DeltaView<'static>, SnapshotView)),
    security(("api_key" = [])),
    modifiers(&ApiKeyScheme)
)]
pub struct Base;

struct ApiKeyScheme;

impl Modify for ApiKeyScheme {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .bearer_format("ag_{id}_{secret}")
            .description(Some("An API key. A server without keys answers on loopback without one."))
            .build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("api_key", SecurityScheme::Http(scheme));
    }
}

/// Brings a generated document into its published shape.
pub fn finish(document: &utoipa::openapi::OpenApi) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_default();
    pages::name(&mut document);
    unions::untangle(&mut document);
    streams::describe(&mut document);
    bounds::bound_labels(&mut document);
    for_each_operation(&mut document, |path, operation| {
        problems::add(path, operation);
        leave_out_body(operation);
        bounds::bound_parameters(operation);
        if !path.starts_with("/v1/") {
            operation.insert("security".to_owned(), json!([]));
        }
    });
    examples::add(&mut document);
    document
}

/// A body that need not be there is left out, not sent as `null`.
fn leave_out_body(operation: &mut serde_json::Map<String, Value>) {
    let body = operation.get_mut("requestBody");
    let media = body.and_then(|body| body.pointer_mut("/content/application~1json"));
    let Some(schema) = media.and_then(|media| media.get_mut("schema")) else { return };
    let variants = schema.get("oneOf").and_then(Value::as_array);
    let present = variants.into_iter().flatten().find(|variant| variant["type"] != "null");
    if let Some(present) = present.cloned() {
        *schema = present;
    }
}

/// Visits every operation with its path.
fn for_each_operation(
    document: &mut Value,
    mut visit: impl FnMut(&str, &mut serde_json::Map<String, Value>),
) {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    for (path, item) in paths.into_iter().flatten() {
        for (_, operation) in item.as_object_mut().into_iter().flatten() {
            if let Some(operation) = operation.as_object_mut() {
                visit(path, operation);
            }
        }
    }
}
