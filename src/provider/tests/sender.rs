//! The sender against servers that behave and servers that do not.

use std::time::Duration;

use secrecy::SecretString;

use super::server::{Server, Then, ask, call, event, finished, head, models, said, stream_head};
use crate::config::Providers;
use crate::domain::ledger::{Origin, Voice};
use crate::domain::message::Reply;
use crate::domain::model::{ModelError, ModelErrorKind as Kind, Provider};
use crate::provider::{Attempt, Bounds, ModelCall, ProviderKeys};
use crate::wire::{Block, MarkedText, PromptTurn, Role};

async fn attempted(then: Then) -> Attempt {
    let server = Server::start(then);
    ask(&models(ProviderKeys::default()), &call(&server.base_url)).await.0
}

async fn answered(then: Then) -> Result<Reply, ModelError> {
    attempted(then).await.outcome
}

async fn failed(then: Then) -> ModelError {
    answered(then).await.unwrap_err()
}

fn unstreamed(base_url: &str) -> ModelCall {
    let mut call = call(base_url);
    call.prompt.settings.stream = Some(false);
    call
}

#[tokio::test]
async fn a_stream_is_handed_on_in_pieces_and_kept_as_received() {
    let pieces = vec![stream_head(), said("Hel"), said("lo"), finished(), event("[DONE]")];
    let mut server = Server::start(Then::Close(pieces.clone()));
    let call = call(&server.base_url);
    let (answer, handed_on) = ask(&models(ProviderKeys::default()), &call).await;
    let reply = answer.outcome.as_ref().unwrap();
    let texts: Vec<_> = handed_on.iter().map(|piece| piece.text.as_str()).collect();
    assert_eq!(texts, ["Hel", "lo"]);
    assert_eq!(reply.text().as_deref(), Some("Hello"));
    assert_eq!(answer.response, pieces[1..].concat());
    assert_eq!((answer.status, answer.body()), (Some(200), call.request()));
    let request = server.requests.recv().await.unwrap();
    assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{request}");
    assert!(request.ends_with(std::str::from_utf8(&answer.body()).unwrap()), "{request}");
    assert!(!request.to_lowercase().contains("authorization"), "{request}");
}

#[tokio::test]
async fn a_whole_reply_is_read_after_keep_alive_white_space() {
    let body = b"\n\n  {\"choices\":[{\"message\":{\"content\":\"hi\"}}]}".to_vec();
    let json = head("200 OK", "content-type: application/json\r\n");
    let server = Server::start(Then::Close(vec![json, body]));
    let (answer, pieces) =
        ask(&models(ProviderKeys::default()), &unstreamed(&server.base_url)).await;
    assert_eq!(answer.outcome.unwrap().text().as_deref(), Some("hi"));
    assert!(pieces.is_empty());
}

#[tokio::test]
async fn a_stream_is_one_under_another_name_whatever_field_it_begins_with() {
    let json = head("200 OK", "content-type: application/json\r\n");
    for first in [": hi\n", "id: 1\n", "retry: 5\n", "event: message\n", "\u{FEFF}", "\n\nr"] {
        // A field name may arrive in two pieces.
        let rest = if first.ends_with('r') { "etry: 5\n" } else { "" };
        let pieces = [first, rest].map(|piece| piece.as_bytes().to_vec());
        let [first_piece, rest] = pieces;
        let pieces = vec![json.clone(), first_piece, rest, said("Hello"), finished()];
        let answer = answered(Then::Close(pieces)).await;
        assert_eq!(answer.unwrap().text().as_deref(), Some("Hello"), "{first:?}");
    }
}

#[tokio::test]
async fn a_plain_body_on_a_stream_is_read_as_one() {
    let json = head("200 OK", "content-type: application/json\r\n");
    let reply = b"{\"choices\":[{\"message\":{\"content\":\"hi\"}}]}".to_vec();
    let answer = answered(Then::Close(vec![json.clone(), reply])).await.unwrap();
    assert_eq!(answer.text().as_deref(), Some("hi"));
    let error = b"{\"error\":{\"code\":\"insufficient_quota\"}}".to_vec();
    assert_eq!(failed(Then::Close(vec![json, error])).await.kind, Kind::Quota);
}

#[tokio::test]
async fn a_page_with_status_200_is_a_protocol_error() {
    let html = head("200 OK", "content-type: text/html\r\n");
    let error = failed(Then::Close(vec![html, b"<html>hello</html>".to_vec()])).await;
    assert_eq!((error.kind, error.retryable), (Kind::Protocol, true));
}

#[tokio::test]
async fn a_status_says_what_failed_and_when_to_come_back() {
    let head =
        head("429 Too Many Requests", "retry-after: 7\r\ncontent-type: application/json\r\n");
    let body = b"{\"error\":{\"message\":\"slow down\",\"code\":\"rate_limit_exceeded\"}}".to_vec();
    let error = failed(Then::Close(vec![head, body])).await;
    assert_eq!((error.kind, error.provider_status), (Kind::RateLimit, Some(429)));
    assert_eq!((error.retry_after_ms, error.retryable), (Some(7_000), true));
    assert_eq!(error.provider_code.as_deref(), Some("rate_limit_exceeded"));
}

#[tokio::test]
async fn an_endless_error_body_is_read_to_its_bound_only() {
    let mut server = Server::start(Then::Hold(vec![head("502 Bad Gateway", ""), vec![b'x'; 500]]));
    let bounds = Bounds { error: 100, ..Bounds::default() };
    let models = models(ProviderKeys::default()).with_bounds(bounds);
    let error = ask(&models, &call(&server.base_url)).await.0.outcome.unwrap_err();
    assert_eq!((error.kind, error.operator_detail.len()), (Kind::Server, 100));
    server.hung_up.recv().await.unwrap();
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let error = failed(Then::Close(vec![head("307 T", "location: http://127.0.0.1:1/\r\n")])).await;
    assert_eq!((error.kind, error.retryable), (Kind::Protocol, false));
    assert_eq!(error.provider_status, Some(307));
}

#[tokio::test]
async fn a_stream_that_just_ends_is_truncated() {
    let error = failed(Then::Close(vec![stream_head(), said("Hel")])).await;
    assert_eq!((error.kind, error.retryable), (Kind::TruncatedStream, true));
}

#[tokio::test]
async fn a_connection_that_breaks_is_a_transport_error() {
    let promised = head("200 OK", "content-type: text/event-stream\r\ncontent-length: 9999\r\n");
    let error = failed(Then::Close(vec![promised.clone(), said("Hel")])).await;
    assert_eq!((error.kind, error.retryable), (Kind::Transport, true));
    assert_eq!(failed(Then::Close(vec![promised])).await.kind, Kind::Transport);
    assert_eq!(failed(Then::Close(vec![])).await.kind, Kind::Transport);
}

#[tokio::test]
async fn a_connection_that_breaks_after_the_finish_reason_loses_nothing() {
    let promised = head("200 OK", "content-type: text/event-stream\r\ncontent-length: 9999\r\n");
    let answer = answered(Then::Close(vec![promised, said("Hello"), finished()])).await;
    assert_eq!(answer.unwrap().text().as_deref(), Some("Hello"));
}

#[tokio::test]
async fn a_server_that_never_closes_is_hung_up_on_after_the_finish_reason() {
    for last in [finished(), [finished(), event("[DONE]")].concat()] {
        let mut server = Server::start(Then::Hold(vec![stream_head(), said("Hello"), last]));
        let (answer, _) = ask(&models(ProviderKeys::default()), &call(&server.base_url)).await;
        assert_eq!(answer.outcome.unwrap().text().as_deref(), Some("Hello"));
        server.hung_up.recv().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_never_answers_meets_the_deadline() {
    for sent in [vec![], vec![stream_head()], vec![stream_head(), said("Hel")]] {
        let mut server = Server::start(Then::Hold(sent));
        let mut call = call(&server.base_url);
        call.timeout = Duration::from_millis(200);
        let error = ask(&models(ProviderKeys::default()), &call).await.0.outcome.unwrap_err();
        assert_eq!((error.kind, error.retryable), (Kind::Timeout, true));
        server.hung_up.recv().await.unwrap();
    }
}

#[tokio::test]
async fn a_stream_that_falls_silent_is_given_up_before_the_deadline() {
    let server = Server::start(Then::Hold(vec![stream_head(), said("Hel")]));
    let bounds = Bounds { idle: Duration::from_millis(50), ..Bounds::default() };
    let models = models(ProviderKeys::default()).with_bounds(bounds);
    let error = ask(&models, &call(&server.base_url)).await.0.outcome.unwrap_err();
    assert_eq!(error.kind, Kind::Timeout);
    assert!(error.operator_detail.contains("silence"), "{error:?}");
}

#[tokio::test]
async fn nobody_listening_is_a_transport_error_that_does_not_show_the_address() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/secret-path", server.local_addr().unwrap());
    drop(server);
    let error =
        ask(&models(ProviderKeys::default()), &call(&base_url)).await.0.outcome.unwrap_err();
    assert_eq!((error.kind, error.retryable), (Kind::Transport, true));
    assert!(!error.operator_detail.contains("secret-path"), "{error:?}");
}

#[tokio::test]
async fn a_reply_beyond_the_bound_is_refused_for_good() {
    let big = said(&"x".repeat(100_000));
    let error = failed(Then::Close(vec![stream_head(), big])).await;
    assert_eq!((error.kind, error.retryable), (Kind::Protocol, false));
}

#[tokio::test]
async fn a_request_with_a_broken_frame_is_not_sent() {
    let mut server = Server::start(Then::Close(vec![]));
    let mut call = call(&server.base_url);
    let name = call.prompt.tags.names()[0].to_owned();
    let ours = Origin { frame: Some(name.clone().into()), ..of(Voice::Application) };
    let closed = format!("</{name}>");
    let text = MarkedText::of(format!("<{name}>"), ours.clone())
        .with(&closed, &of(Voice::User))
        .with(&closed, &ours);
    call.prompt.turns = vec![PromptTurn { role: Role::User, blocks: vec![Block::Text(text)] }];
    let attempt = ask(&models(ProviderKeys::default()), &call).await.0;
    let error = attempt.outcome.unwrap_err();
    assert_eq!((error.kind, error.retryable), (Kind::FramingViolation, false));
    assert!(attempt.endpoint.is_empty(), "{}", attempt.endpoint);
    assert!(server.requests.try_recv().is_err());
}

fn of(voice: Voice) -> Origin {
    Origin::step(1, 0, voice)
}

#[tokio::test]
async fn dropping_the_call_hangs_up() {
    let mut server = Server::start(Then::Hold(vec![stream_head(), said("Hel")]));
    let models = models(ProviderKeys::default());
    let call = call(&server.base_url);
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let mut begun = Some(begun);
    let mut on_delta = |_| {
        let sent = begun.take().map(|begun| begun.send(()));
        assert_eq!(sent, Some(Ok(())));
    };
    tokio::select! {
        answer = models.call(&call, None, &mut on_delta) => panic!("{answer:?}"),
        begun = has_begun => begun.unwrap(),
    }
    server.hung_up.recv().await.unwrap();
}

#[tokio::test]
async fn the_operators_key_is_shown_to_listed_origins_only() {
    for listed in [true, false] {
        let mut server = Server::start(Then::Close(vec![stream_head(), said("x"), finished()]));
        let origin = server.base_url.trim_end_matches("/v1").to_owned();
        let settings = Providers {
            keys: [("OPENAI_API_KEY", SecretString::from("sesame"))].into(),
            origins: if listed { vec![(Provider::Openai, origin)] } else { vec![] },
            ..Providers::default()
        };
        ask(&models(ProviderKeys::of(&settings)), &call(&server.base_url)).await.0.outcome.unwrap();
        let request = server.requests.recv().await.unwrap();
        assert_eq!(request.contains("authorization: Bearer sesame\r\n"), listed, "{request}");
    }
}

#[tokio::test]
async fn an_address_that_is_none_fails_for_good() {
    let error =
        ask(&models(ProviderKeys::default()), &call("not a url")).await.0.outcome.unwrap_err();
    assert_eq!((error.kind, error.retryable), (Kind::BadRequest, false));
}

#[tokio::test]
async fn an_attempt_that_fails_keeps_what_came_and_what_was_sent() {
    let server = Server::start(Then::Hold(vec![stream_head(), said("Hel")]));
    let mut late = call(&format!("{}?version=2", server.base_url));
    late.timeout = Duration::from_millis(200);
    let (attempt, _) = ask(&models(ProviderKeys::default()), &late).await;
    assert_eq!(attempt.outcome.as_ref().map_err(|error| error.kind), Err(Kind::Timeout));
    assert_eq!((attempt.status, attempt.response.as_ref()), (Some(200), said("Hel").as_slice()));
    assert_eq!(attempt.endpoint, "/v1/chat/completions?version=2");
    assert_eq!(attempt.body(), late.request());
    assert!(attempt.first_byte_after.is_some_and(|first| first < attempt.took));

    let refusal = head("503 Service Unavailable", "");
    let attempt = attempted(Then::Close(vec![refusal, b"later".to_vec()])).await;
    assert_eq!((attempt.status, attempt.response.as_ref()), (Some(503), b"later".as_slice()));
    assert!(attempt.outcome.is_err());

    let attempt = ask(&models(ProviderKeys::default()), &call("not a url")).await.0;
    assert_eq!((attempt.status, attempt.first_byte_after), (None, None));
    assert!(attempt.endpoint.is_empty() && attempt.header_names.is_empty());
}

#[tokio::test]
async fn an_attempt_names_the_headers_that_the_server_saw() {
    let mut server = Server::start(Then::Close(vec![stream_head(), said("x"), finished()]));
    let (attempt, _) = ask(&models(ProviderKeys::default()), &call(&server.base_url)).await;
    let request = server.requests.recv().await.unwrap();
    let (head, _) = request.split_once("\r\n\r\n").unwrap();
    let mut seen: Vec<_> =
        head.lines().skip(1).map(|line| line.split(':').next().unwrap().to_lowercase()).collect();
    seen.sort_unstable();
    assert_eq!(attempt.header_names, seen);
}
