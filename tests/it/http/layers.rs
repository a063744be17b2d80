//! What the router and the layers around it answer before any endpoint does.

use std::collections::{BTreeMap, BTreeSet};

use agentling::http::openapi_document;

use super::speaker;
use crate::support::{TestApp, send_raw, stored};

/// The methods of every documented path, with one thing in place of its ids.
fn methods() -> BTreeMap<String, BTreeSet<String>> {
    let document = openapi_document();
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .map(|(path, item)| {
            let path = path
                .replace("{agent_id}", "a")
                .replace("{thread_id}", "thr_0198f2c4a1b27cde8f00112233445566")
                .replace("{run_id}", "run_0198f2c4a1b27cde8f00112233445566")
                .replace("{step_id}", "stp_0198f2c4a1b27cde8f00112233445566");
            (path, item.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect())
        })
        .collect()
}

const SENT: [&str; 9] =
    ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "FOO", "PROPFIND"];

/// Sends a path a method that it does not have. `allowed` is what it has.
async fn refuse(app: &TestApp, (method, path): (&str, &str), allowed: &BTreeSet<String>) {
    let answer = app.send(app.request(method, path)).await;
    assert_eq!(answer.status, 405, "{method} {path}: {}", answer.text);
    let named: BTreeSet<String> = answer.header("allow").split(", ").map(str::to_owned).collect();
    assert!(named.is_superset(allowed), "{method} {path}: {named:?}");
    if method != "HEAD" {
        assert!(!named.contains(method), "{method} {path}: {named:?}");
        let problem = answer.expect_problem(405, "method-not-allowed");
        assert_eq!(named.len(), problem["allowed"].as_array().unwrap().len());
    }
}

#[tokio::test]
async fn a_path_takes_the_methods_of_the_document_and_says_so_when_asked_otherwise() {
    let app = TestApp::start().await;
    for (path, mut allowed) in methods() {
        // The answer to `GET` without its body is no operation of its own; a stream has none.
        if allowed.contains("GET") && !path.ends_with("/stream") {
            allowed.insert("HEAD".to_owned());
        }
        for method in SENT.into_iter().filter(|method| !allowed.contains(*method)) {
            refuse(&app, (method, &path), &allowed).await;
        }
    }
}

#[tokio::test]
async fn a_method_that_a_path_does_not_have_is_refused_whatever_the_query_says() {
    let app = TestApp::start().await;
    for path in ["/v1/runs?limit=1", "/v1/threads?what=ever", "/v1/skills?name=a"] {
        let answer = app.send(app.request("FOO", path)).await;
        answer.expect_problem(405, "method-not-allowed");
    }
    let answer = app.send(app.request("POST", "/v1/threads?what=ever")).await;
    answer.expect_problem(400, "invalid-parameter");
}

#[tokio::test]
async fn methods_that_no_path_has_are_refused_wherever_they_are_sent() {
    let app = TestApp::start().await;
    for path in ["/v1/agents", "/healthz", "/nowhere", "/v1/nowhere", "/docs/"] {
        let answer = app.send(app.request("TRACE", path)).await;
        assert_eq!(answer.header("allow"), "GET, HEAD, POST, PUT, PATCH, DELETE", "{path}");
        answer.expect_problem(405, "method-not-allowed");
    }
    let connect = b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let answer = send_raw(&app, connect).await;
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
}

#[tokio::test]
async fn a_path_that_is_not_there_is_a_problem_whatever_the_key() {
    let app = TestApp::with(&[("AGENTLING_API_KEY", "a-key-of-the-operator")]).await;
    for path in [
        "/nowhere",
        "/v1",
        "/v1/",
        "/v1/nowhere",
        "/v2/agents",
        "/v1/agents/a/b",
        "/v1//agents",
        "/.env",
    ] {
        for request in [app.request("GET", path), app.request("POST", path).body("{")] {
            app.send(request).await.expect_problem(404, "not-found");
        }
    }
    app.get("/problems/nowhere").await.expect_problem(404, "not-found");
    app.get("/docs/nowhere").await.expect_problem(404, "not-found");
}

#[tokio::test]
async fn what_is_asked_for_is_json_or_events_and_nothing_else() {
    let app = TestApp::start().await;
    app.create_agent(&speaker("a", "x")).await;
    let run = app.run(&speaker("b", "Hello."), "hi").await;
    let stream = format!("/v1/runs/{}/stream", run["id"].as_str().unwrap());
    for (path, accept, status) in [
        ("/v1/agents/a", "image/png", 406),
        ("/v1/agents/a", "text/event-stream", 406),
        ("/v1/agents/a", "application/json;q=0", 406),
        ("/v1/agents/a", "text/html, image/*", 406),
        ("/v1/agents/a", "nonsense", 406),
        ("/v1/agents/a", "*/*", 200),
        ("/v1/agents/a", "application/*;q=0.1", 200),
        ("/v1/agents/a", "text/html, application/json", 200),
        (&stream, "application/json", 406),
        (&stream, "image/png", 406),
        (&stream, "text/event-stream", 200),
        (&stream, "text/*", 200),
    ] {
        let answer = app.send(app.request("GET", path).header("accept", accept)).await;
        assert_eq!(answer.status, status, "{path} {accept}: {}", answer.text);
        if status == 406 {
            answer.expect_problem(406, "not-acceptable");
        }
    }
}

#[tokio::test]
async fn a_web_page_of_another_origin_is_given_no_permission() {
    let app = TestApp::start().await;
    let permissions = |answer: &crate::support::Answer| -> Vec<String> {
        let names = answer.headers.keys().map(ToString::to_string);
        names.filter(|name| name.starts_with("access-control-")).collect()
    };
    let before = stored(&app.db).await;
    let preflight = app.request("OPTIONS", "/v1/agents").header("origin", "https://evil.example");
    let preflight = app.send(preflight.header("access-control-request-method", "POST")).await;
    assert_eq!((preflight.status, permissions(&preflight)), (204, vec![]));
    assert_eq!(stored(&app.db).await, before);
    let real = app.request("GET", "/v1/agents").header("origin", "https://evil.example");
    let real = app.send(real).await;
    assert_eq!((real.status, permissions(&real)), (200, vec![]));
}

#[tokio::test]
async fn headers_that_mean_nothing_here_are_ignored() {
    let app = TestApp::start().await;
    let agent = app.create_agent(&speaker("a", "x")).await;
    for (name, value) in [
        ("traceparent", "nonsense"),
        ("traceparent", "00-0-0-00"),
        ("tracestate", ",,,"),
        ("if-none-match", "no quotes"),
        ("if-modified-since", "yesterday"),
        ("range", "bytes=0-1"),
        ("cookie", "session=1"),
        ("x-http-method-override", "DELETE"),
        ("x-forwarded-host", "evil.example"),
    ] {
        let answer = app.send(app.request("GET", "/v1/agents/a").header(name, value)).await;
        assert_eq!(answer.expect(200), agent, "{name}");
    }
}
