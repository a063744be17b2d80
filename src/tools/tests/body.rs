//! Bodies that are packed, too large, or without an end.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::http::{answered, failed, text};
use super::server::{answer, read_request, write};
use super::{agent, request, tool, toolbox};
use crate::domain::tool::{OutcomeKind, ToolOutcome};

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(body).unwrap();
    packed.finish().unwrap()
}

async fn packed(headers: &str, body: &[u8]) -> ToolOutcome {
    answered(&json!({}), &answer("200 OK", headers, body)).await
}

#[tokio::test]
async fn a_packed_body_is_unpacked_and_may_come_in_several_members() {
    for coding in ["gzip", "GZIP", "x-gzip"] {
        let header = format!("content-encoding: {coding}\r\n");
        assert_eq!(text(&packed(&header, &gzip(b"hello")).await), "hello");
        let two = [gzip(b"hello "), gzip(b"there")].concat();
        assert_eq!(text(&packed(&header, &two).await), "hello there");
    }
    assert_eq!(text(&packed("content-encoding: identity\r\n", b"hello").await), "hello");
    assert_eq!(text(&packed("content-encoding: gzip\r\n", b"").await), "");
}

#[tokio::test]
async fn a_body_that_is_packed_in_another_way_cannot_be_read() {
    for header in [
        "content-encoding: br\r\n",
        "content-encoding: gzip, gzip\r\n",
        "content-encoding: gzip\r\ncontent-encoding: gzip\r\n",
        "content-encoding: gzip\r\n",
    ] {
        let outcome = packed(header, b"hello").await;
        assert_eq!(failed(&outcome).1, "InvalidResponse", "{header}");
    }
}

#[tokio::test]
async fn a_body_that_grows_a_hundredfold_is_refused_long_before_it_is_large() {
    // Up to 64 KiB the ratio does not count; beyond, a hundred to one is too much.
    let small = vec![b'x'; 64 * 1024];
    assert_eq!(text(&packed("content-encoding: gzip\r\n", &gzip(&small)).await).len(), small.len());
    let grown = vec![b'x'; 1024 * 1024];
    let outcome = packed("content-encoding: gzip\r\n", &gzip(&grown)).await;
    let told = "the unpacked body of the tool's answer is larger than allowed";
    let (kind, name, message) = failed(&outcome);
    assert_eq!((kind, name), (OutcomeKind::InDoubt, "ResponseTooLarge"));
    assert!(message.contains(told), "{message}");
    // Text that is packed to a fiftieth passes, however large it is within the bound.
    let mut mixed = Vec::new();
    for n in 0_u32..40_000 {
        mixed.extend(format!("{:x}{}", n.wrapping_mul(2_654_435_761), "x".repeat(60)).bytes());
    }
    assert_eq!(text(&packed("content-encoding: gzip\r\n", &gzip(&mixed)).await).len(), mixed.len());
}

/// Calls a tool whose server writes these bytes over and over, one piece a pause, for as long as somebody
/// reads.
async fn endless(fields: &Value, head: &str, (piece, pause): (&[u8], Duration)) -> ToolOutcome {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let toolbox = toolbox(std::slice::from_ref(&host));
    let declared = tool(&format!("http://{host}/"), &json!({}), fields);
    let tools = toolbox.toolset(&agent(&json!([declared]), &json!({})));
    let call = request("probe", &json!({}));
    let serving = async {
        let (stream, _) = listener.accept().await.unwrap();
        read_request(&stream).await;
        let mut ticks = tokio::time::interval(pause);
        let mut goes_on = write(&stream, head.as_bytes()).await;
        while goes_on {
            ticks.tick().await;
            goes_on = write(&stream, piece).await;
        }
        std::future::pending().await
    };
    tokio::select! {
        outcome = toolbox.call(&tools, &call) => outcome,
        never = serving => never,
    }
}

#[tokio::test]
async fn an_endless_body_is_cut_off_at_its_bound() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";
    let piece = vec![b'x'; 64 * 1024];
    let outcome = endless(&json!({}), head, (&piece, Duration::from_millis(1))).await;
    assert_eq!(failed(&outcome).1, "ResponseTooLarge");
}

#[tokio::test]
async fn bytes_that_keep_coming_do_not_move_the_deadline() {
    for head in ["HTTP/1.1 200 OK\r\nx-slow: ", "HTTP/1.1 200 OK\r\n\r\n"] {
        let every = Duration::from_millis(20);
        let fields = json!({"timeout_ms": 300, "effect": "pure"});
        let outcome = endless(&fields, head, (b"x", every)).await;
        assert_eq!(failed(&outcome).0, OutcomeKind::Timeout, "{head:?}");
    }
}
