//! The OpenAPI document that is kept in the repository.

use std::collections::BTreeSet;

use agentling::http::openapi::{findings, to_3_0};
use agentling::http::openapi_document;
use serde_json::{Value, json};

use crate::support::TestApp;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/openapi.json");

/// Method, path and operation of everything documented.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .flat_map(|(path, item)| {
            item.as_object()
                .unwrap()
                .iter()
                .map(|(method, operation)| (method.clone(), path.clone(), operation.clone()))
        })
        .collect()
}

#[test]
fn the_kept_document_is_the_one_that_the_code_makes() {
    let made = format!("{}\n", serde_json::to_string_pretty(&openapi_document()).unwrap());
    let kept = std::fs::read_to_string(FILE).unwrap_or_default();
    if kept != made {
        std::fs::write(FILE, made).unwrap();
        panic!(
            "openapi/openapi.json was out of date and has been rewritten: look at its diff and commit it"
        );
    }
}

#[test]
fn the_document_keeps_to_the_shape_rules() {
    assert_eq!(findings(&openapi_document()), Vec::<String>::new());
}

#[test]
fn every_operation_can_be_named_grouped_and_summed_up() {
    let document = openapi_document();
    let known: Vec<&Value> =
        document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let name = format!("{method} {path}");
        let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{name} has no id"));
        assert!(ids.insert(id.to_owned()), "{name}: {id} is taken");
        let simple = id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(simple && id.contains('_'), "{name}: {id} is not spelt like `runs_create`");
        let tags = operation["tags"].as_array().unwrap();
        assert!(tags.len() == 1 && known.contains(&&tags[0]), "{name}: {tags:?}");
        let summary = operation["summary"].as_str().unwrap_or_default();
        assert!((3..=60).contains(&summary.len()) && !summary.ends_with('.'), "{name}: {summary}");
        let is_health = ["/healthz", "/readyz", "/metrics"].contains(&path.as_str());
        assert!(is_health || path.starts_with("/v1/"), "{name}");
        assert_eq!(operation["security"] == json!([]), is_health, "{name}");
    }
}

#[test]
fn every_operation_says_what_it_answers_when_all_is_well_and_when_it_is_not() {
    for (method, path, operation) in operations(&openapi_document()) {
        let responses = operation["responses"].as_object().unwrap();
        let good: Vec<_> = responses.iter().filter(|(status, _)| status.starts_with('2')).collect();
        assert!(!good.is_empty(), "{method} {path}");
        for (status, response) in responses {
            let media: Vec<&String> = response["content"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(media, _)| media)
                .collect();
            let wanted: &[&str] = match status.as_bytes()[0] {
                b'2' if status == "204" => &[],
                b'3' => &[],
                b'2' if path.ends_with("/stream") => &["text/event-stream"],
                b'2' if path.ends_with("/response") => &["application/octet-stream"],
                b'2' if path == "/metrics" => &["text/plain"],
                b'2' => &["application/json"],
                _ => &["application/problem+json"],
            };
            assert_eq!(media, wanted, "{method} {path} {status}");
        }
        for range in ["4XX", "5XX"] {
            assert!(responses.contains_key(range), "{method} {path}: no {range}");
        }
    }
}

/// The bodies of requests and of successes, with where they stand.
fn bodies(document: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (method, path, operation) in operations(document) {
        let responses = operation["responses"].as_object().unwrap().iter();
        let good = responses.filter(|(status, _)| status.starts_with('2'));
        let told = good.map(|(status, response)| (format!("answer {status}"), response.clone()));
        let asked = ("request".to_owned(), operation["requestBody"].clone());
        for (role, body) in told.chain([asked]) {
            for (media, content) in body["content"].as_object().into_iter().flatten() {
                found.push((format!("{method} {path}: {role} as {media}"), content.clone()));
            }
        }
    }
    found
}

#[test]
fn every_body_has_an_example_that_fits_its_schema() {
    let document = openapi_document();
    let bodies = bodies(&document);
    assert!(bodies.len() > 100, "{}", bodies.len());
    for (name, content) in bodies {
        let schema = json!({ "allOf": [content["schema"]], "components": document["components"] });
        let validator = jsonschema::options().offline().build(&schema).unwrap();
        let example = content.get("example").unwrap_or_else(|| panic!("{name} has no example"));
        let wrong: Vec<String> =
            validator.iter_errors(example).map(|error| error.to_string()).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{name}: {example}");
    }
}

#[test]
fn a_stream_is_described_event_by_event() {
    let document = openapi_document();
    for path in ["/paths/~1v1~1runs~1stream/post", "/paths/~1v1~1runs~1{run_id}~1stream/get"] {
        let media = document.pointer(&format!("{path}/responses/200/content/text~1event-stream"));
        assert_eq!(media.unwrap()["schema"]["$ref"], "#/components/schemas/RunStreamEvent");
    }
    let schemas = &document["components"]["schemas"];
    let mapping =
        |union: &str| schemas[union]["discriminator"]["mapping"].as_object().unwrap().clone();
    let (of_stream, of_list) = (mapping("RunStreamEvent"), mapping("RunEvent"));
    assert!(of_list.iter().all(|(name, target)| of_stream.get(name) == Some(target)));
    let live: Vec<&String> = of_stream.keys().filter(|name| !of_list.contains_key(*name)).collect();
    assert_eq!(live, ["text.delta", "thinking.delta", "tool_call.delta", "snapshot"]);
}

/// Everything in a document that OpenAPI 3.0 has no word for.
fn newer_words(place: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if ["example", "examples", "default", "enum"].contains(&name.as_str()) {
                    continue;
                }
                let is_newer = match name.as_str() {
                    "type" => member.is_array() || member == "null",
                    "const" | "propertyNames" | "prefixItems" | "contentMediaType" => {
                        !place.ends_with("/properties")
                    }
                    "exclusiveMinimum" | "exclusiveMaximum" => member.is_number(),
                    _ => false,
                };
                if is_newer {
                    found.push(format!("{place}/{name}"));
                }
                newer_words(&format!("{place}/{name}"), member, found);
            }
        }
        Value::Array(elements) => {
            for element in elements {
                newer_words(place, element, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_older_document_has_no_words_of_the_newer() {
    let mut found = Vec::new();
    newer_words("", &to_3_0(&openapi_document()), &mut found);
    assert_eq!(found, Vec::<String>::new());
}

#[tokio::test]
async fn a_server_publishes_the_kept_document() {
    let app = TestApp::with(&[("AGENTLING_API_KEY", "a-key-of-the-operator")]).await;
    assert_eq!(app.get("/openapi.json").await.expect(200), openapi_document());
    let older = app.get("/openapi-3.0.json").await.expect(200);
    assert!(older["openapi"].as_str().unwrap().starts_with("3.0."));
    assert_eq!(operations(&older).len(), operations(&openapi_document()).len());
}

#[tokio::test]
async fn the_served_document_names_the_address_that_the_operator_gave() {
    let app = TestApp::with(&[("AGENTLING_PUBLIC_URL", "https://agents.example/base/")]).await;
    let document = app.get("/openapi.json").await.expect(200);
    assert_eq!(document["servers"][0]["url"], "https://agents.example/base/");
}
