//! Calls that go out, and what becomes of every kind of answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::server::{Server, answer};
use super::{agent, request, tool, toolbox};
use crate::domain::tool::{JsonOutput, OutcomeKind, TextOutput, ToolOutcome, ToolOutput};
use crate::tools::CallRequest;

/// Calls a tool of a fresh server that answers these bytes; gives back the outcome and the request.
async fn call_with(
    path: &str,
    properties: &Value,
    fields: &Value,
    arguments: &Value,
    bytes: &[u8],
) -> (ToolOutcome, String) {
    let server = Server::start().await;
    let toolbox = toolbox(std::slice::from_ref(&server.host));
    let tools =
        toolbox.toolset(&agent(&json!([tool(&server.url(path), properties, fields)]), &json!({})));
    let call = request("probe", arguments);
    tokio::join!(toolbox.call(&tools, &call), server.answer(bytes))
}

pub(super) async fn answered(fields: &Value, bytes: &[u8]) -> ToolOutcome {
    call_with("/", &json!({}), fields, &json!({}), bytes).await.0
}

pub(super) fn text(outcome: &ToolOutcome) -> &str {
    match &outcome.output {
        Some(ToolOutput::Text(TextOutput { text })) => text,
        other => panic!("no text: {other:?} {:?}", outcome.error),
    }
}

fn json_of(outcome: &ToolOutcome) -> &Value {
    match &outcome.output {
        Some(ToolOutput::Json(JsonOutput { json, .. })) => json,
        other => panic!("no JSON: {other:?} {:?}", outcome.error),
    }
}

pub(super) fn failed(outcome: &ToolOutcome) -> (OutcomeKind, &str, &str) {
    assert!(outcome.is_error && outcome.output.is_none());
    let error = outcome.error.as_ref().unwrap();
    (outcome.kind, &error.r#type, &error.message)
}

#[tokio::test]
async fn a_call_sends_its_arguments_its_headers_and_its_key() {
    let (outcome, asked) = call_with(
        "/cities/{city}?unit={unit}",
        &json!({"city": {"type": "string"}, "unit": {"type": "string"}, "days": {"type": "integer"}}),
        &json!({"headers": {"X-Plain": "1"}}),
        &json!({"city": "São Paulo", "unit": "c", "days": 3}),
        &answer("200 OK", "content-type: text/plain\r\n", b"sunny"),
    )
    .await;
    assert!(asked.starts_with("POST /cities/S%C3%A3o%20Paulo?unit=c HTTP/1.1\r\n"), "{asked}");
    assert!(asked.ends_with("\r\n\r\n{\"days\":3}"), "{asked}");
    for header in [
        "x-plain: 1",
        "idempotency-key: call_1",
        "agentling-fence: 7",
        "content-type: application/json",
    ] {
        assert!(asked.contains(&format!("\r\n{header}\r\n")), "{header} in {asked}");
    }
    assert!(!asked.to_lowercase().contains("referer") && !asked.to_lowercase().contains("cookie"));
    assert_eq!(text(&outcome), "sunny");
    assert_eq!(
        (outcome.kind, outcome.is_error, outcome.attempts),
        (OutcomeKind::Success, false, 1)
    );
    assert_eq!(outcome.started_at.unwrap().timestamp(), 0);
    assert_eq!(outcome.finished_at.unwrap().timestamp(), 1);
}

#[tokio::test]
async fn arguments_of_a_get_become_query_values_that_cannot_add_others() {
    let (_, asked) = call_with(
        "/search?fixed=1",
        &json!({"q": {"type": "string"}, "tag": {"type": "array"}, "none": {}}),
        &json!({"method": "GET"}),
        &json!({"q": "a&fixed=2#x", "tag": ["x", 2], "none": null}),
        &answer("200 OK", "", b""),
    )
    .await;
    let line = asked.lines().next().unwrap();
    assert_eq!(line, "GET /search?fixed=1&q=a%26fixed%3D2%23x&tag=x&tag=2 HTTP/1.1");
    assert!(asked.ends_with("\r\n\r\n"), "there is no body: {asked}");
}

/// The request that a call with arguments of this spelling makes.
async fn asked(path: &str, fields: &Value, arguments: &str) -> String {
    let server = Server::start().await;
    let toolbox = toolbox(std::slice::from_ref(&server.host));
    let properties = json!({"n": {}, "m": {}, "list": {}, "o": {}});
    let tools = json!([tool(&server.url(path), &properties, fields)]);
    let tools = toolbox.toolset(&agent(&tools, &json!({})));
    let call = CallRequest { arguments: arguments.to_owned(), ..request("probe", &json!({})) };
    let bytes = answer("200 OK", "", b"");
    tokio::join!(toolbox.call(&tools, &call), server.answer(&bytes)).1
}

#[tokio::test]
async fn numbers_reach_the_tool_as_the_model_spelt_them() {
    let arguments = r#"{"o": {"z": 1.10, "a": [-0, 1E+2]}, "n": 12345678901234567890123,
        "list": [9007199254740993.0, "x"], "m": 1.0}"#;
    let posted = asked("/{n}?m={m}", &json!({}), arguments).await;
    assert!(posted.starts_with("POST /12345678901234567890123?m=1.0 HTTP/1.1\r\n"), "{posted}");
    let body = r#"{"o":{"z":1.10,"a":[-0,1E+2]},"list":[9007199254740993.0,"x"]}"#;
    assert!(posted.ends_with(&format!("\r\n\r\n{body}")), "{posted}");
    let got = asked("/", &json!({"method": "GET"}), arguments).await;
    let o = "%7B%22z%22%3A1.10%2C%22a%22%3A%5B-0%2C1E%2B2%5D%7D";
    let query = format!("?o={o}&n=12345678901234567890123&list=9007199254740993.0&list=x&m=1.0 ");
    assert!(got.starts_with(&format!("GET /{query}")), "{got}");
}

#[tokio::test]
async fn json_is_kept_as_it_came_or_cut_to_the_output_path() {
    let body = br#"{"z": 1, "a": {"b": ["x", {"c": true}]}}"#;
    let bytes = answer("200 OK", "content-type: application/vnd.x+json; charset=utf-8\r\n", body);
    let whole = answered(&json!({}), &bytes).await;
    assert_eq!(json_of(&whole).to_string(), r#"{"z":1,"a":{"b":["x",{"c":true}]}}"#);
    let part = answered(&json!({"output_path": "/a/b/1"}), &bytes).await;
    assert_eq!(json_of(&part), &json!({"c": true}));
    let missing = answered(&json!({"output_path": "/a/q", "effect": "pure"}), &bytes).await;
    let (kind, name, message) = failed(&missing);
    assert_eq!((kind, name), (OutcomeKind::Execution, "InvalidResponse"));
    assert_eq!(message, "the tool's answer has nothing at \"/a/q\"");
}

#[tokio::test]
async fn what_cannot_be_stored_is_replaced_and_said_so() {
    let plain = answered(&json!({}), &answer("200 OK", "", b"a\0b\xff")).await;
    assert_eq!((text(&plain), plain.sanitised), ("a\u{fffd}b\u{fffd}", true));
    let bytes = answer("200 OK", "content-type: application/json\r\n", br#"{"k\u0000":"\ud800"}"#);
    let json = answered(&json!({}), &bytes).await;
    assert_eq!((json_of(&json), json.sanitised), (&json!({"k\u{fffd}": "\u{fffd}"}), true));
    let clean = answered(&json!({}), &answer("200 OK", "", "é 😀".as_bytes())).await;
    assert_eq!((text(&clean), clean.sanitised), ("é 😀", false));
}

#[tokio::test]
async fn a_status_that_is_no_success_is_told_with_the_start_of_its_body() {
    let body = "ü".repeat(1_500);
    let outcome = answered(&json!({}), &answer("503 Busy", "", body.as_bytes())).await;
    let told = format!("the tool answered with status 503: {}", "ü".repeat(1_000));
    assert_eq!(failed(&outcome), (OutcomeKind::Execution, "HttpStatus", told.as_str()));
    let empty = answered(&json!({}), &answer("404 Not Found", "", b"")).await;
    assert_eq!(failed(&empty).2, "the tool answered with status 404");
}

#[tokio::test]
async fn a_redirect_is_a_status_like_any_other_and_is_not_followed() {
    let server = Server::start().await;
    let elsewhere = Server::start().await;
    let toolbox = toolbox(&[server.host.clone(), elsewhere.host.clone()]);
    let spec = agent(&json!([tool(&server.url("/"), &json!({}), &json!({}))]), &json!({}));
    let bytes = answer("302 Found", &format!("location: {}\r\n", elsewhere.url("/")), b"");
    let tools = toolbox.toolset(&spec);
    let call = request("probe", &json!({}));
    let (outcome, _) = tokio::select! {
        both = async { tokio::join!(toolbox.call(&tools, &call), server.answer(&bytes)) } => both,
        asked = elsewhere.answer(&bytes) => panic!("the redirect was followed: {asked}"),
    };
    assert_eq!(failed(&outcome).2, "the tool answered with status 302");
}

#[tokio::test]
async fn a_body_at_the_bound_is_taken_and_one_beyond_is_refused() {
    const BOUND: usize = 4 * 1024 * 1024;
    let full = answered(&json!({}), &answer("200 OK", "", &vec![b'x'; BOUND])).await;
    assert_eq!(text(&full).len(), BOUND);
    let beyond = answered(&json!({}), &answer("200 OK", "", &vec![b'x'; BOUND + 1])).await;
    let (kind, name, _) = failed(&beyond);
    assert_eq!((kind, name), (OutcomeKind::InDoubt, "ResponseTooLarge"));
}

/// A gzip member of one zero and `repeats` copies of 258 zeros, in 13 bits each, without its end.
fn zeros(repeats: usize) -> Vec<u8> {
    const COPY: [u8; 13] = [1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0];
    let begin = [1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0].into_iter();
    let bits: Vec<u8> = begin.chain(std::iter::repeat_n(COPY, repeats).flatten()).collect();
    let packed = bits.chunks(8).map(|byte| byte.iter().rev().fold(0, |all, bit| all << 1 | bit));
    [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff].into_iter().chain(packed).collect()
}

#[tokio::test]
async fn a_body_is_counted_after_decompression() {
    let body = zeros(17_000);
    assert!(body.len() < 30_000);
    let bytes = answer("200 OK", "content-encoding: gzip\r\n", &body);
    assert_eq!(failed(&answered(&json!({}), &bytes).await).1, "ResponseTooLarge");
    // The same stream, broken off while it is small, cannot be read.
    let bytes = answer("200 OK", "content-encoding: gzip\r\n", &zeros(100));
    assert_eq!(failed(&answered(&json!({}), &bytes).await).1, "InvalidResponse");
}

#[tokio::test]
async fn headers_beyond_their_bound_are_refused() {
    let line = format!("x-long: {}\r\n", "x".repeat(64 * 1024));
    let outcome = answered(&json!({}), &answer("200 OK", &line, b"")).await;
    assert_eq!(failed(&outcome).1, "ResponseTooLarge");
}

#[tokio::test]
async fn a_tool_that_does_not_answer_in_time_is_a_timeout() {
    let server = Server::start().await;
    let toolbox = toolbox(std::slice::from_ref(&server.host));
    let fields = json!({"timeout_ms": 20, "effect": "pure"});
    let declared = tool(&server.url("/"), &json!({}), &fields);
    let spec = agent(&json!([declared]), &json!({"redact_errors": true}));
    let tools = toolbox.toolset(&spec);
    let call = request("probe", &json!({}));
    let outcome = tokio::select! {
        outcome = toolbox.call(&tools, &call) => outcome,
        never = server.hang() => never,
    };
    let told = "tool 'probe' exceeded its 0.02s timeout";
    assert_eq!(failed(&outcome), (OutcomeKind::Timeout, "Timeout", told));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_connect_error() {
    let gone = Server::start().await.host;
    let toolbox = toolbox(std::slice::from_ref(&gone));
    let spec =
        agent(&json!([tool(&format!("http://{gone}/"), &json!({}), &json!({}))]), &json!({}));
    let outcome = toolbox.call(&toolbox.toolset(&spec), &request("probe", &json!({}))).await;
    let told = "the tool's server could not be reached";
    assert_eq!(failed(&outcome), (OutcomeKind::Execution, "ConnectError", told));
}

#[tokio::test]
async fn a_connection_lost_in_mid_call_leaves_only_an_at_most_once_call_in_doubt() {
    for (effect, kind) in [
        ("at_most_once", OutcomeKind::InDoubt),
        ("idempotent", OutcomeKind::Execution),
        ("pure", OutcomeKind::Execution),
    ] {
        for bytes in [b"".as_slice(), b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf"] {
            let outcome = answered(&json!({"effect": effect}), bytes).await;
            let (told, name, message) = failed(&outcome);
            assert_eq!((told, name), (kind, "ConnectionLost"), "{effect}");
            assert_eq!(
                message.contains("may or may not have taken effect"),
                effect == "at_most_once"
            );
        }
    }
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_leaves_only_an_at_most_once_call_in_doubt() {
    let line = format!("x-long: {}\r\n", "x".repeat(64 * 1024));
    let gzip = "content-encoding: gzip\r\n";
    let path = json!({"output_path": "/a"});
    for (status, headers, body, fields, what) in [
        ("200 OK", line.as_str(), b"".to_vec(), json!({}), "the headers of the tool's answer are"),
        (
            "200 OK",
            "",
            vec![b'x'; 4 * 1024 * 1024 + 1],
            json!({}),
            "the body of the tool's answer is",
        ),
        ("200 OK", gzip, zeros(17_000), json!({}), "the unpacked body of the tool's answer is"),
        (
            "201 Created",
            gzip,
            b"plain".to_vec(),
            json!({}),
            "is packed in a way that cannot be read",
        ),
        ("200 OK", "", b"<html>".to_vec(), path.clone(), "the tool did not answer JSON"),
        ("200 OK", "", b"{}".to_vec(), path, "has nothing at \"/a\""),
    ] {
        for (effect, kind) in
            [("at_most_once", OutcomeKind::InDoubt), ("idempotent", OutcomeKind::Execution)]
        {
            let mut fields = fields.clone();
            fields["effect"] = json!(effect);
            let outcome = answered(&fields, &answer(status, headers, &body)).await;
            let (told, _, message) = failed(&outcome);
            assert_eq!(told, kind, "{what}: {message}");
            assert!(message.contains(what), "{what}: {message}");
            let is_open = message.contains("must be verified before it is repeated");
            assert_eq!(is_open, effect == "at_most_once", "{message}");
        }
    }
    // A status that says that it failed is an answer, however large what comes with it is.
    let outcome = answered(&json!({}), &answer("500 Oh", &line, b"no")).await;
    assert_eq!(failed(&outcome).0, OutcomeKind::Execution);
    assert_eq!(failed(&outcome).2, "the tool answered with status 500");
}

#[tokio::test]
async fn a_timeout_leaves_an_at_most_once_call_in_doubt_once_there_was_a_connection() {
    let server = Server::start().await;
    // The backlog of this one is full, so that a connection to it is never made.
    let full = tokio::net::TcpSocket::new_v4().unwrap();
    full.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let full = full.listen(1).unwrap();
    let address = full.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(200), tokio::net::TcpStream::connect(address))
            .await
    {
        waiting.push(stream);
    }
    let toolbox = toolbox(&[server.host.clone(), address.to_string()]);
    for (url, kind, name) in [
        (server.url("/"), OutcomeKind::InDoubt, "Timeout"),
        (format!("http://{address}/"), OutcomeKind::Execution, "ConnectError"),
    ] {
        let declared = tool(&url, &json!({}), &json!({"timeout_ms": 300}));
        let tools = toolbox.toolset(&agent(&json!([declared]), &json!({})));
        let call = request("probe", &json!({}));
        let outcome = tokio::select! {
            outcome = toolbox.call(&tools, &call) => outcome,
            never = server.hang() => never,
        };
        let (told, type_name, message) = failed(&outcome);
        assert_eq!((told, type_name), (kind, name), "{message}");
        assert!(message.contains("its 0.3s timeout"), "{message}");
        let is_open = message.contains("it may or may not have taken effect");
        assert_eq!(is_open, kind == OutcomeKind::InDoubt, "{message}");
    }
}

#[tokio::test]
async fn an_address_that_is_not_public_is_refused_at_every_call() {
    let server = Server::start().await;
    let spec = agent(&json!([tool(&server.url("/"), &json!({}), &json!({}))]), &json!({}));
    let closed = toolbox(&[]);
    let outcome = closed.call(&closed.toolset(&spec), &request("probe", &json!({}))).await;
    let told = "egress-denied: scheme";
    assert_eq!(failed(&outcome), (OutcomeKind::Execution, "EgressDenied", told));
}

#[tokio::test]
async fn arguments_that_would_change_the_url_are_refused_before_anything_is_sent() {
    let toolbox = toolbox(&[]);
    let url = "https://tool.example/items/{id}";
    let properties = json!({"id": {"type": "string"}});
    let tools = toolbox.toolset(&agent(&json!([tool(url, &properties, &json!({}))]), &json!({})));
    for id in [json!({"id": ".."}), json!({"id": "."}), json!({"id": ""})] {
        let outcome = toolbox.call(&tools, &request("probe", &id)).await;
        let told = "/id must not be empty, '.' or '..'";
        assert_eq!(failed(&outcome), (OutcomeKind::InvalidArguments, "InvalidArguments", told));
    }
    let outcome = toolbox.call(&tools, &request("probe", &json!({}))).await;
    assert_eq!(failed(&outcome).2, "/id is needed for the tool's URL");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_redacted_failure_goes_to_the_log_once_and_nowhere_else() {
    let log = Log::default();
    let sink = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || sink.clone()).finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let server = Server::start().await;
    let toolbox = toolbox(std::slice::from_ref(&server.host));
    let declared = json!([tool(&server.url("/"), &json!({}), &json!({}))]);
    let tools = toolbox.toolset(&agent(&declared, &json!({"redact_errors": true})));
    let tools = tools.logging(|text| text.replace("secret", "[gone]"));
    let call = request("probe", &json!({}));
    let bytes = answer("500 Oops", "", b"canary-4711 secret\nforged line");
    let (outcome, _) = tokio::join!(toolbox.call(&tools, &call), server.answer(&bytes));
    drop(guard);
    let error = outcome.error.clone().unwrap();
    assert_eq!(
        (error.r#type.as_str(), error.message.as_str(), error.redacted),
        ("HttpStatus", "", true)
    );
    assert!(!serde_json::to_string(&outcome).unwrap().contains("canary"));
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(logged.matches("canary-4711").count(), 1, "{logged}");
    assert!(logged.contains("[gone]") && !logged.contains("secret"), "{logged}");
    assert!(logged.contains("call_1") && !logged.contains("\nforged"), "{logged}");
}

#[tokio::test]
async fn refusals_are_never_redacted() {
    let toolbox = toolbox(&[]);
    let properties = json!({"n": {"type": "integer"}});
    let declared = json!([tool("https://tool.example/", &properties, &json!({}))]);
    let tools = toolbox.toolset(&agent(&declared, &json!({"redact_errors": true})));
    let unfit = toolbox.call(&tools, &request("probe", &json!({"n": "x"}))).await;
    assert_eq!(failed(&unfit).2, "/n is refused: the value is not of type \"integer\"");
    let unknown = toolbox.call(&tools, &request("nope", &json!({}))).await;
    assert_eq!(failed(&unknown).2, "Unknown tool 'nope'. Available: probe, final_answer");
}
