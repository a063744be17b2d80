//! What tools that remember tell a model, and what they ask of those who keep items.

use std::sync::{Arc, Mutex};

use chrono::DateTime;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::{agent, reply, request, toolbox};
use crate::domain::agent::AgentSpec;
use crate::domain::id::{CallId, TenantId};
use crate::domain::memory_item::{
    Hit, ItemFacts, ItemPlace, ItemPut, ItemSearch, ItemValue, MemoryItem,
};
use crate::domain::tool::{EffectClass, OutcomeKind, ToolOutcome};
use crate::tools::memory::{Items, ItemsUnreached};
use crate::tools::{CallRequest, SpecProblem, Toolbox};

/// Notes what is asked of it, and has one item.
#[derive(Debug, Default)]
struct Noting(Mutex<Vec<String>>);

impl Noting {
    fn note(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }
}

fn facts() -> ItemFacts {
    let moment = DateTime::UNIX_EPOCH;
    ItemFacts { version: 3, created_at: moment, updated_at: moment, expires_at: None }
}

fn item(place: ItemPlace) -> MemoryItem {
    let value = ItemValue::of(r#"{"b":1.10,"a":2}"#).unwrap().text;
    MemoryItem { place, value, facts: facts() }
}

impl Items for Noting {
    fn put<'a>(
        &'a self,
        tenant: &'a TenantId,
        put: &'a ItemPut,
        call: &'a CallId,
    ) -> BoxFuture<'a, Result<ItemFacts, ItemsUnreached>> {
        let ItemPlace { namespace, key } = &put.place;
        let (key, value) = (key.as_str(), put.value.text.as_str());
        self.note(format!("{tenant} {namespace} {key} {value} {:?} {}", put.ttl, call.as_str()));
        std::future::ready(Ok(facts())).boxed()
    }

    fn get<'a>(
        &'a self,
        _: &'a TenantId,
        place: &'a ItemPlace,
    ) -> BoxFuture<'a, Result<Option<MemoryItem>, ItemsUnreached>> {
        let found = (place.key.as_str() == "there").then(|| item(place.clone()));
        std::future::ready(Ok(found)).boxed()
    }

    fn search<'a>(
        &'a self,
        _: &'a TenantId,
        search: &'a ItemSearch,
        limit: u32,
    ) -> BoxFuture<'a, Result<Vec<Hit>, ItemsUnreached>> {
        let ItemSearch { prefix, only_here, query, .. } = search;
        self.note(format!("{} {only_here} {query:?} {limit}", prefix.parts().join("/")));
        let namespace = prefix.parts().to_vec().try_into().unwrap();
        let item = item(ItemPlace { namespace, key: "there".parse().unwrap() });
        std::future::ready(Ok(vec![Hit { item, score: None }])).boxed()
    }
}

fn remembering(namespace: &Value) -> AgentSpec {
    let tool = |name| json!({"kind": "builtin", "name": name, "namespace": namespace});
    let mut put = tool("memory_put");
    put["ttl_s"] = json!(60);
    agent(&json!([put, tool("memory_get"), tool("memory_search")]), &json!({}))
}

fn kept() -> (Toolbox, Arc<Noting>) {
    let noting = Arc::new(Noting::default());
    (toolbox(&[]).with_items(Arc::<Noting>::clone(&noting)), noting)
}

async fn call(toolbox: &Toolbox, spec: &AgentSpec, call: &CallRequest) -> ToolOutcome {
    toolbox.call(&toolbox.toolset(spec), call).await
}

fn said(outcome: &ToolOutcome) -> String {
    let said = serde_json::to_value(outcome.output.as_ref().unwrap()).unwrap();
    let exact = said["exact"].as_str().map(str::to_owned);
    exact.unwrap_or_else(|| said["json"].to_string())
}

#[tokio::test]
async fn values_are_put_got_and_found_in_the_namespace_that_the_agent_says() {
    let (toolbox, noting) = kept();
    let spec = remembering(&json!(["users", "{{metadata.user}}"]));
    let labelled = |name: &str, arguments: &str| {
        let labels = [("user".to_owned(), "42".to_owned())].into();
        CallRequest { arguments: arguments.to_owned(), labels, ..request(name, &json!({})) }
    };
    let arguments = r#"{"key": "k", "value": {"z": 1.50, "a": [1e2]}}"#;
    let put = call(&toolbox, &spec, &labelled("memory_put", arguments)).await;
    assert_eq!(said(&put), r#"{"key":"k","version":3}"#);
    let got = call(&toolbox, &spec, &labelled("memory_get", r#"{"key":"there"}"#)).await;
    let told = r#"{"key":"there","value":{"b":1.10,"a":2},"version":3,"updated_at":"1970-01-01T00:00:00Z"}"#;
    assert_eq!(said(&got), format!(r#"{{"found":true,"item":{told}}}"#));
    let got = call(&toolbox, &spec, &labelled("memory_get", r#"{"key":"gone"}"#)).await;
    assert_eq!(said(&got), r#"{"found":false}"#);
    for arguments in [r#"{"query":"a or b","limit":3}"#, r#"{"query":" "}"#] {
        let found = call(&toolbox, &spec, &labelled("memory_search", arguments)).await;
        assert_eq!(said(&found), format!(r#"{{"items":[{told}]}}"#));
    }
    assert_eq!(
        *noting.0.lock().unwrap(),
        [
            r#"default users/42 k {"z":1.50,"a":[1e2]} Some(60s) call_1"#,
            r#"users/42 true Some("a or b") 3"#,
            "users/42 true None 10",
        ]
    );
}

#[tokio::test]
async fn a_run_without_the_label_of_a_namespace_has_none() {
    let (toolbox, noting) = kept();
    let spec = remembering(&json!(["users", "{{metadata.user}}"]));
    for value in [None, Some("a/b"), Some("")] {
        let labels = value.map(|value| ("user".to_owned(), value.to_owned())).into_iter().collect();
        let put = json!({"key": "k", "value": 1});
        let request = CallRequest { labels, ..request("memory_put", &put) };
        let outcome = call(&toolbox, &spec, &request).await;
        assert_eq!(outcome.kind, OutcomeKind::Execution);
        assert_eq!(outcome.error.unwrap().r#type, "NamespaceUnavailable");
    }
    assert_eq!(*noting.0.lock().unwrap(), [""; 0]);
}

#[tokio::test]
async fn what_cannot_be_reached_is_told_as_a_failure() {
    let outcome = call(
        &toolbox(&[]),
        &remembering(&json!(["a"])),
        &request("memory_get", &json!({"key": "k"})),
    )
    .await;
    assert_eq!(outcome.error.unwrap().r#type, "MemoryUnavailable");
}

#[test]
fn the_model_is_told_of_keys_and_words_and_of_no_namespace() {
    let (toolbox, _) = kept();
    let tools = toolbox.toolset(&remembering(&json!(["secret-place"])));
    let names: Vec<&str> = tools.definitions().iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["memory_put", "memory_get", "memory_search", "final_answer"]);
    let told: Vec<String> = tools
        .definitions()
        .iter()
        .map(|tool| format!("{} {}", tool.description, tool.parameters))
        .collect();
    assert!(!told.concat().contains("namespace") && !told.concat().contains("secret-place"));
    let plan = tools.plan(&reply(&[
        ("memory_put", r#"{"key":"k","value":null}"#),
        ("memory_get", r#"{"key":"k"}"#),
        ("memory_search", "{}"),
    ]));
    let planned: Vec<_> = plan.iter().map(|call| (call.effect, call.parallel_safe)).collect();
    let reads = (EffectClass::Pure, true);
    assert_eq!(planned, [(EffectClass::Idempotent, false), reads, reads]);
    assert!(plan.iter().all(|call| call.settled.is_none()));
}

#[test]
fn arguments_that_do_not_fit_are_refused_in_words_that_the_model_can_use() {
    let (toolbox, _) = kept();
    let tools = toolbox.toolset(&remembering(&json!(["a"])));
    let large = json!({"key": "k", "value": "x".repeat(65_535)}).to_string();
    let deep = format!(r#"{{"key":"k","value":{}{}}}"#, "[".repeat(33), "]".repeat(33));
    for (name, arguments, told) in [
        ("memory_put", large.as_str(), "/value: must have at most 65536 bytes"),
        ("memory_put", deep.as_str(), "/0: must be nested 32 levels deep"),
        ("memory_put", r#"{"key":"k","value":{"a":"\u0000"}}"#, "/value/a: U+0000"),
        ("memory_put", r#"{"key":" k","value":1}"#, "/key: must have 1–128 characters"),
        ("memory_put", r#"{"key":"","value":1}"#, "/key"),
        ("memory_put", r#"{"key":"k"}"#, "/value"),
        ("memory_put", r#"{"key":"k","value":1,"namespace":["b"]}"#, "namespace"),
        ("memory_get", r#"{"key":"a\u0000"}"#, "/key"),
        ("memory_search", r#"{"limit":21}"#, "/limit"),
        ("memory_search", r#"{"query":"\u0000"}"#, "/query"),
    ] {
        let planned = tools.plan(&reply(&[(name, arguments)]));
        let outcome = planned[0].settled.clone().unwrap();
        assert_eq!(outcome.kind, OutcomeKind::InvalidArguments, "{arguments}");
        let message = outcome.error.unwrap().message;
        assert!(message.contains(told), "{message:?} for {told:?}");
    }
}

#[test]
fn a_tool_that_remembers_needs_a_namespace_and_no_other_takes_one() {
    let (toolbox, _) = kept();
    let found = |tool: Value| {
        let found = toolbox.check(&agent(&json!([tool]), &json!({})));
        assert!(found.iter().all(|finding| finding.code == SpecProblem::Invalid));
        found.into_iter().map(|finding| finding.pointer).collect::<Vec<_>>()
    };
    let builtin = |name: &str, more: Value| {
        let mut tool = json!({"kind": "builtin", "name": name});
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tool
    };
    let namespace = json!({"namespace": ["a", "{{metadata.b}}"]});
    assert_eq!(found(builtin("memory_get", namespace.clone())), [""; 0]);
    assert_eq!(found(builtin("memory_get", json!({}))), ["/tools/0/namespace"]);
    assert_eq!(found(builtin("final_answer", namespace)), ["/tools/0/namespace"]);
    for parts in [json!([]), json!(["a/b"]), json!(["{{metadata.b}}c"]), json!(vec!["a"; 9])] {
        assert_eq!(
            found(builtin("memory_get", json!({"namespace": parts}))),
            ["/tools/0/namespace"]
        );
    }
    let bounded = json!({"namespace": ["a"], "ttl_s": 0});
    assert_eq!(found(builtin("memory_put", bounded.clone())), ["/tools/0/ttl_s"]);
    assert_eq!(found(builtin("memory_get", bounded)), ["/tools/0/ttl_s"; 2]);
}
