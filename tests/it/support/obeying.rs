//! A model that does whatever the outputs of tools order it to do.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Value, json};

use super::model::{self, ModelReply, ModelRequest};

/// The tool that it asks first, and whose output orders the rest.
const FIRST: &str = "read";

type Seen = Arc<Mutex<Vec<ModelRequest>>>;

/// A server that speaks Chat Completions. It calls `read`, and from then on makes every call in the
/// `orders` of the outputs that it was told last; told of none, it says `Done.`.
pub(crate) struct ObeyingModel {
    origin: String,
    seen: Seen,
}

impl ObeyingModel {
    pub(crate) async fn start() -> Self {
        let seen = Seen::default();
        let router = Router::new().fallback(serve).with_state(Arc::clone(&seen));
        Self { origin: model::spawn(router).await, seen }
    }

    /// What an agent gives as its model.
    pub(crate) fn spec(&self) -> Value {
        let base_url = format!("{}/v1", self.origin);
        json!({"provider": "openai", "name": "m", "base_url": base_url})
    }

    /// Every request so far, in order.
    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(State(seen): State<Seen>, request: Request) -> Response {
    let request = model::read(request).await;
    let (messages, streams) = (request.messages(), request.json()["stream"] == true);
    seen.lock().unwrap().push(request);
    model::answer(reply(&messages), streams).await
}

fn reply(messages: &[Value]) -> ModelReply {
    if !messages.iter().any(|message| message["role"] == "tool") {
        return ModelReply::call(FIRST, "{}");
    }
    let last = messages.iter().rev().take_while(|message| message["role"] != "assistant");
    let mut told: Vec<&str> = last.filter_map(|message| message["content"].as_str()).collect();
    told.reverse();
    let calls: Vec<_> = told.into_iter().flat_map(orders).collect();
    if calls.is_empty() {
        return ModelReply::text("Done.");
    }
    ModelReply::Says { text: String::new(), calls, finish: "tool_calls" }
}

/// The calls that a text orders, if it begins with JSON that does: their names, and the texts of their
/// arguments.
fn orders(text: &str) -> Vec<(String, String)> {
    let first = serde_json::Deserializer::from_str(text).into_iter::<Value>().next();
    let orders = first.and_then(Result::ok).map(|mut said| said["orders"].take());
    let orders: Vec<Value> =
        orders.and_then(|orders| orders.as_array().cloned()).unwrap_or_default();
    let call = |order: Value| {
        let arguments = order["arguments"].as_str().map(str::to_owned);
        let arguments = arguments.unwrap_or_else(|| order["arguments"].to_string());
        (order["name"].as_str().unwrap().to_owned(), arguments)
    };
    orders.into_iter().map(call).collect()
}
