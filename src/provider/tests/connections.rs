//! The sender against connections that are kept, die, or carry more than they should.

use std::time::Duration;

use super::server::{
    Server, Then, ask, call, event, finished, head, kept, models, said, stream_head,
};
use crate::domain::model::{ModelErrorKind as Kind, Provider};
use crate::provider::{Bounds, ProviderKeys};

fn stream() -> Vec<u8> {
    kept("text/event-stream", &[said("Hello"), finished(), event("[DONE]")].concat())
}

/// `{"choices":[{"message":{"content":"hi"}}]}`, compressed.
const GZIP: &[u8] = &[
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xab, 0x56, 0x4a, 0xce, 0xc8, 0xcf,
    0x4c, 0x4e, 0x2d, 0x56, 0xb2, 0x8a, 0xae, 0x56, 0xca, 0x4d, 0x2d, 0x2e, 0x4e, 0x4c, 0x4f, 0x55,
    0xb2, 0xaa, 0x56, 0x4a, 0xce, 0xcf, 0x2b, 0x49, 0xcd, 0x2b, 0x51, 0xb2, 0x52, 0xca, 0xc8, 0x54,
    0xaa, 0xad, 0x8d, 0xad, 0x05, 0x00, 0xcb, 0x01, 0x32, 0x54, 0x2a, 0x00, 0x00, 0x00,
];

#[tokio::test]
async fn a_connection_is_used_again() {
    let exchanges = vec![Then::Keep(vec![stream()]), Then::Keep(vec![stream()])];
    let server = Server::serve(vec![exchanges]);
    let models = models(ProviderKeys::default());
    for _ in 0..2 {
        let (attempt, _) = ask(&models, &call(&server.base_url)).await;
        assert_eq!(attempt.outcome.unwrap().text().as_deref(), Some("Hello"));
    }
}

#[tokio::test]
async fn a_kept_connection_that_dies_is_replaced_at_once_within_the_attempt() {
    let dies = vec![Then::Keep(vec![stream()]), Then::Close(vec![])];
    let mut server = Server::serve(vec![dies, vec![Then::Close(vec![stream()])]]);
    let models = models(ProviderKeys::default());
    for _ in 0..2 {
        let (attempt, _) = ask(&models, &call(&server.base_url)).await;
        assert_eq!(attempt.outcome.unwrap().text().as_deref(), Some("Hello"));
    }
    let mut requests = Vec::new();
    for _ in 0..3 {
        requests.push(server.requests.recv().await.unwrap());
    }
    assert_eq!(requests[1], requests[2], "the same request is sent again");
}

#[tokio::test]
async fn a_kept_connection_that_dies_later_than_at_once_may_have_been_paid_for_and_is_not_replaced()
{
    let dies = vec![Then::Keep(vec![stream()]), Then::Close(vec![])];
    let mut server = Server::serve(vec![dies, vec![Then::Close(vec![stream()])]]);
    let bounds = Bounds { at_once: Duration::ZERO, ..Bounds::default() };
    let models = models(ProviderKeys::default()).with_bounds(bounds);
    ask(&models, &call(&server.base_url)).await.0.outcome.unwrap();
    let error = ask(&models, &call(&server.base_url)).await.0.outcome.unwrap_err();
    assert_eq!((error.kind, error.retryable), (Kind::Transport, true));
    for _ in 0..2 {
        server.requests.recv().await.unwrap();
    }
    assert!(server.requests.try_recv().is_err());
}

#[tokio::test]
async fn a_server_that_hangs_up_twice_has_failed() {
    let dies = vec![Then::Keep(vec![stream()]), Then::Close(vec![])];
    let mut server = Server::serve(vec![dies, vec![Then::Close(vec![])]]);
    let models = models(ProviderKeys::default());
    ask(&models, &call(&server.base_url)).await.0.outcome.unwrap();
    let error = ask(&models, &call(&server.base_url)).await.0.outcome.unwrap_err();
    assert_eq!((error.kind, error.retryable), (Kind::Transport, true));
    for _ in 0..3 {
        server.requests.recv().await.unwrap();
    }
}

#[tokio::test]
async fn a_new_connection_that_dies_is_not_replaced() {
    let second = vec![Then::Close(vec![stream()])];
    let server = Server::serve(vec![vec![Then::Close(vec![])], second]);
    let models = models(ProviderKeys::default());
    let first = ask(&models, &call(&server.base_url)).await.0.outcome.unwrap_err();
    assert_eq!(first.kind, Kind::Transport);
    ask(&models, &call(&server.base_url)).await.0.outcome.unwrap();
}

#[tokio::test]
async fn an_answer_that_dies_after_its_head_is_a_failure_of_the_attempt() {
    let cut = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 9\r\n\r\n";
    let dies = vec![Then::Keep(vec![stream()]), Then::Close(vec![cut.to_vec()])];
    let mut server = Server::serve(vec![dies]);
    let models = models(ProviderKeys::default());
    ask(&models, &call(&server.base_url)).await.0.outcome.unwrap();
    let (attempt, _) = ask(&models, &call(&server.base_url)).await;
    assert_eq!((attempt.status, attempt.first_byte_after), (Some(200), None));
    assert_eq!(attempt.outcome.unwrap_err().kind, Kind::Transport);
    server.requests.recv().await.unwrap();
    server.requests.recv().await.unwrap();
}

#[tokio::test]
async fn a_compressed_body_is_read_and_kept_as_it_was_before() {
    let gzip = head("200 OK", "content-type: application/json\r\ncontent-encoding: gzip\r\n");
    for streams in [true, false] {
        let server = Server::start(Then::Close(vec![gzip.clone(), GZIP.to_vec()]));
        let mut call = call(&server.base_url);
        call.prompt.settings.stream = Some(streams);
        let (attempt, _) = ask(&models(ProviderKeys::default()), &call).await;
        assert_eq!(attempt.outcome.unwrap().text().as_deref(), Some("hi"));
        assert_eq!(attempt.response.as_ref(), br#"{"choices":[{"message":{"content":"hi"}}]}"#);
    }
    let cut = GZIP[..GZIP.len() / 2].to_vec();
    let server = Server::start(Then::Close(vec![gzip, cut]));
    let (attempt, _) = ask(&models(ProviderKeys::default()), &call(&server.base_url)).await;
    let error = attempt.outcome.unwrap_err();
    assert!(matches!(error.kind, Kind::Transport | Kind::Protocol), "{error:?}");
    assert!(error.retryable);
}

#[tokio::test]
async fn a_line_as_long_as_the_bound_allows_is_read_and_a_longer_one_is_not_kept() {
    let long = "x".repeat(99_000);
    let server = Server::start(Then::Close(vec![stream_head(), said(&long), finished()]));
    let (attempt, _) = ask(&models(ProviderKeys::default()), &call(&server.base_url)).await;
    assert_eq!(attempt.outcome.unwrap().text(), Some(long));
    let endless = [b"data: ".to_vec(), vec![b'x'; 1_000_000]].concat();
    let mut server = Server::start(Then::Hold(vec![stream_head(), endless]));
    let (attempt, _) = ask(&models(ProviderKeys::default()), &call(&server.base_url)).await;
    assert_eq!(attempt.outcome.unwrap_err().kind, Kind::Protocol);
    assert_eq!(attempt.response.len(), 100_000);
    server.hung_up.recv().await.unwrap();
}

#[tokio::test]
async fn a_head_without_end_is_given_up() {
    let long = format!("HTTP/1.1 200 OK\r\nx-long: {}", "x".repeat(2_000_000));
    let mut server = Server::start(Then::Hold(vec![long.into_bytes()]));
    let (attempt, _) = ask(&models(ProviderKeys::default()), &call(&server.base_url)).await;
    assert_eq!(attempt.outcome.unwrap_err().kind, Kind::Transport);
    server.hung_up.recv().await.unwrap();
}

#[tokio::test]
async fn a_stream_that_trickles_meets_the_deadline_though_it_is_never_silent() {
    let mut server = Server::start(Then::Trickle(vec![stream_head()]));
    let bounds = Bounds { idle: Duration::from_secs(5), ..Bounds::default() };
    let models = models(ProviderKeys::default()).with_bounds(bounds);
    let mut call = call(&server.base_url);
    call.timeout = Duration::from_millis(200);
    let (attempt, _) = ask(&models, &call).await;
    let error = attempt.outcome.unwrap_err();
    assert_eq!(error.kind, Kind::Timeout);
    assert!(error.operator_detail.contains("200 ms"), "{error:?}");
    assert!(attempt.response.starts_with(b": x\n"), "{:?}", attempt.response);
    server.hung_up.recv().await.unwrap();
}

#[tokio::test]
async fn a_limited_call_is_told_when_its_counters_come_back_unless_it_is_told_better() {
    let counters = "x-ratelimit-remaining-requests: 0\r\nx-ratelimit-reset-requests: 1.5s\r\n\
                    x-ratelimit-remaining-tokens: 9\r\nx-ratelimit-reset-tokens: 50s\r\n";
    let better = format!("{counters}retry-after: 7\r\n");
    for (status, headers, wait) in [
        ("429 Too Many Requests", counters, Some(1_500)),
        ("429 Too Many Requests", better.as_str(), Some(7_000)),
        ("500 Internal Server Error", counters, None),
    ] {
        let server = Server::start(Then::Close(vec![head(status, headers)]));
        let (attempt, _) = ask(&models(ProviderKeys::default()), &call(&server.base_url)).await;
        assert_eq!(attempt.outcome.unwrap_err().retry_after_ms, wait, "{headers}");
    }
}

#[tokio::test]
async fn a_wish_to_wait_on_a_reply_that_is_there_is_ignored() {
    let head = head("200 OK", "content-type: text/event-stream\r\nretry-after: 99999\r\n");
    let server = Server::start(Then::Close(vec![head, said("Hello"), finished()]));
    let (attempt, _) = ask(&models(ProviderKeys::default()), &call(&server.base_url)).await;
    assert_eq!(attempt.outcome.unwrap().text().as_deref(), Some("Hello"));
}

#[tokio::test]
async fn retries_are_bounded_for_each_server_and_for_none_inside_the_process() {
    let models = models(ProviderKeys::default());
    let (one, other) = (call("http://127.0.0.1:1/v1").spec, call("http://127.0.0.1:2/v1").spec);
    let mut inside = one.clone();
    inside.provider = Provider::Scripted;
    let granted = |spec| (0..9).filter(|_| models.may_retry(spec)).count();
    assert_eq!((granted(&one), granted(&other), granted(&one)), (3, 3, 0));
    assert_eq!(granted(&inside), 9);
}
