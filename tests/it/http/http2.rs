//! Clients that ask for more at once than anybody answers: pipelines and HTTP/2.

use futures::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{
    CONTINUATION, END_HEADERS, END_STREAM, Frame, Frames, GOAWAY, HEADERS, RST_STREAM, TestApp,
    frame, h2_request as request, send_raw,
};

const REFUSED_STREAM: u32 = 0x7;
const ENHANCE_YOUR_CALM: u32 = 0xb;

/// A request without a body.
fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &request("GET", path, &[]))
}

/// A request whose body does not come.
fn unfinished(stream: u32) -> Vec<u8> {
    let headers = request("POST", "/v1/agents", &[("content-type", "application/json")]);
    frame(HEADERS, END_HEADERS, stream, &headers)
}

/// Another client is answered as ever.
async fn others_are_served(app: &TestApp) {
    app.get("/v1/agents").await.expect(200);
    let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let answers = join_all((0..20).map(|_| client.get(app.url("/v1/agents")).send())).await;
    for answer in answers {
        let answer = answer.unwrap();
        assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
    }
}

/// Whether a frame is an answer with this status. The first header of an answer is its status: an index of
/// the table that every connection begins with, or digits.
fn is_ok(frame: &Frame) -> bool {
    frame.kind == HEADERS && frame.payload.first() == Some(&0x88)
}

#[tokio::test]
async fn b93_two_thousand_pipelined_requests_are_answered_one_after_the_other() {
    let app = TestApp::start().await;
    let one = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let last = "GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let all = [one.repeat(1_999), last.to_owned()].concat();
    let (answer, ()) = tokio::join!(send_raw(&app, all.as_bytes()), others_are_served(&app));
    let statuses: Vec<&str> =
        answer.split("HTTP/1.1 ").skip(1).filter_map(|answer| answer.get(..3)).collect();
    assert_eq!(statuses.len(), 2_000);
    assert!(statuses[..1_999].iter().all(|status| *status == "200"));
    assert_eq!(statuses[1_999], "404");
}

#[tokio::test]
async fn b93_a_client_that_pipelines_and_reads_nothing_is_hung_up_on() {
    let app = TestApp::with(&[("AGENTLING_STALL_MS", "100")]).await;
    let mut stream = TcpStream::connect(app.running.address).await.unwrap();
    let request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    // It ends, because the server reads no further than it can answer.
    while stream.write_all(&request).await.is_ok() {}
    others_are_served(&app).await;
}

#[tokio::test]
async fn b93_the_stream_beyond_a_hundred_and_twenty_eight_is_refused() {
    let app = TestApp::start().await;
    let mut client = Frames::connect(&app).await;
    let held: Vec<u8> = (0..128).flat_map(|n| unfinished(2 * n + 1)).collect();
    assert!(client.send(&held).await && client.send(&get(257, "/healthz")).await);
    let refused = client.next().await.unwrap();
    assert_eq!((refused.kind, refused.stream, refused.error()), (RST_STREAM, 257, REFUSED_STREAM));
    others_are_served(&app).await;
    // A stream that ends makes room for another.
    let room = [frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes()), get(259, "/healthz")].concat();
    assert!(client.send(&room).await);
    let answered = client.next().await.unwrap();
    assert!(answered.stream == 259 && is_ok(&answered), "{answered:?}");
}

#[tokio::test]
async fn b93_a_flood_of_resets_ends_the_connection() {
    let app = TestApp::start().await;
    let mut client = Frames::connect(&app).await;
    let mut flood = Vec::new();
    for n in 0..2_000 {
        let stream = 2 * n + 1;
        flood.extend(get(stream, "/v1/agents"));
        flood.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    // The server may hang up amid of it.
    client.send(&flood).await;
    let frames = client.rest().await;
    let ended = frames.iter().find(|frame| frame.kind == GOAWAY);
    if let Some(ended) = ended {
        assert_eq!(ended.error(), ENHANCE_YOUR_CALM);
    }
    let answered = frames.iter().filter(|frame| frame.kind == HEADERS).count();
    assert!(answered < 2_000, "{answered}");
    others_are_served(&app).await;
}

#[tokio::test]
async fn b93_headers_beyond_64_kib_are_refused_and_the_connection_goes_on_or_ends() {
    let app = TestApp::start().await;
    let mut client = Frames::connect(&app).await;
    let value = "v".repeat(8 * 1024);
    let names: Vec<String> = (0..9).map(|n| format!("x-{n}")).collect();
    let more: Vec<(&str, &str)> =
        names.iter().map(|name| (name.as_str(), value.as_str())).collect();
    let block = request("GET", "/healthz", &more);
    let mut pieces = block.chunks(16 * 1024);
    let mut bytes = frame(HEADERS, END_STREAM, 1, pieces.next().unwrap());
    for piece in pieces {
        bytes.extend(frame(CONTINUATION, 0, 1, piece));
    }
    bytes.extend(frame(CONTINUATION, END_HEADERS, 1, &[]));
    client.send(&bytes).await;
    let refused = client.next().await.unwrap();
    assert!(!is_ok(&refused), "{refused:?}");
    others_are_served(&app).await;
    // Between what an answer is worth and what is not read at all, there is a problem.
    let plain = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    let answer = plain.get(app.url("/healthz")).header("x", "v".repeat(33 * 1024)).send().await;
    assert_eq!(answer.unwrap().status().as_u16(), 431);
}

#[tokio::test]
async fn b93_headers_without_an_end_end_the_connection() {
    let app = TestApp::with(&[("AGENTLING_HEADER_READ_MS", "500")]).await;
    // Those that go on for ever.
    let mut client = Frames::connect(&app).await;
    client.send(&frame(HEADERS, END_STREAM, 1, &request("GET", "/healthz", &[]))).await;
    while client.send(&frame(CONTINUATION, 0, 1, &[])).await {}
    // Those that stop.
    let mut client = Frames::connect(&app).await;
    client.send(&frame(HEADERS, END_STREAM, 1, &request("GET", "/healthz", &[]))).await;
    assert!(!client.rest().await.iter().any(is_ok));
}

#[tokio::test]
async fn a_connection_that_has_to_end_lets_what_is_under_way_end_first() {
    let app = TestApp::start().await;
    let mut client = Frames::connect(&app).await;
    assert!(client.send(&[unfinished(1), get(3, "/healthz")].concat()).await);
    let answered = client.next().await.unwrap();
    assert!(answered.stream == 3 && is_ok(&answered), "{answered:?}");
    let stopping = app.running.stop();
    let watching = async {
        let told = client.next().await.unwrap();
        assert_eq!((told.kind, told.error()), (GOAWAY, 0));
        let body = br#"{"name":"a","model":{"provider":"scripted","name":"m"}}"#;
        assert!(client.send(&frame(0, END_STREAM, 1, body)).await);
        client.of_stream(1).await
    };
    let ((), answered) = tokio::join!(stopping, watching);
    assert_eq!(answered.kind, HEADERS);
}

#[tokio::test]
async fn a_client_that_opens_a_connection_and_reads_slowly_costs_no_other_anything() {
    let app = TestApp::with(&[("AGENTLING_STALL_MS", "100")]).await;
    let mut slow = TcpStream::connect(app.running.address).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut byte = [0];
    slow.read_exact(&mut byte).await.unwrap();
    others_are_served(&app).await;
    assert_eq!(&byte, b"H");
}
