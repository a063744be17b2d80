//! Answers without an end: each ends in an error at a bound, and memory has one too.

use agentling::provider::client::http_client;
use flate2::{Compress, Compression, Crc, FlushCompress};
use serde_json::{Value, json};

use crate::support::{Child, Endless, EndlessAnswer, FakeTools, TestDb, assert_invariants};

/// The bound of a whole reply, and room for what the sockets between hold.
const MOST_SENT: usize = 64 << 20;

/// What the server may grow by while it reads them all, one after the other: a reply at its bound is
/// there as bytes, as text, and compressed for the ledger.
const MOST_GROWN: u64 = 400 << 20;

/// What it may grow by while it reads answers of tools.
const MOST_GROWN_BY_TOOLS: u64 = 20 << 20;

fn streamed(content_type: &str, first: &str, again: &str) -> EndlessAnswer {
    EndlessAnswer {
        head: format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}"),
        first: first.as_bytes().to_vec(),
        again: again.as_bytes().to_vec(),
    }
}

/// A frame of the event stream that brings a piece of text.
fn delta_frame(text: &str) -> Vec<u8> {
    let mut headers = Vec::new();
    for (name, value) in [(":event-type", "contentBlockDelta"), (":message-type", "event")] {
        headers.push(u8::try_from(name.len()).unwrap());
        headers.extend_from_slice(name.as_bytes());
        headers.push(7);
        headers.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }
    let payload = json!({"contentBlockIndex": 0, "delta": {"text": text}}).to_string();
    let mut frame = prelude(16 + headers.len() + payload.len(), headers.len());
    frame.extend_from_slice(&headers);
    frame.extend_from_slice(payload.as_bytes());
    let sum = checksum(&frame);
    frame.extend_from_slice(&sum);
    frame
}

/// The beginning of a frame that is to be so long.
fn prelude(total: usize, headers: usize) -> Vec<u8> {
    let lengths = [total, headers].map(|length| u32::try_from(length).unwrap().to_be_bytes());
    let mut prelude = lengths.concat();
    let sum = checksum(&prelude);
    prelude.extend_from_slice(&sum);
    prelude
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum().to_be_bytes()
}

/// Bytes as part of an archive that may be followed by itself.
fn zipped(bytes: &[u8]) -> Vec<u8> {
    let mut part = Vec::with_capacity(bytes.len());
    let mut compress = Compress::new(Compression::best(), false);
    compress.compress_vec(bytes, &mut part, FlushCompress::Full).unwrap();
    part
}

/// What has no end, who answers so, and how often it is asked.
fn answers() -> Vec<(&'static str, &'static str, EndlessAnswer, usize)> {
    let (sse, lines) = ("text/event-stream", "application/x-ndjson");
    let frames = "application/vnd.amazon.eventstream";
    let long = "x".repeat(1_000);
    let chunk = json!({"choices": [{"delta": {"content": "x".repeat(400)}}]});
    let line = json!({"message": {"content": long}, "done": false});
    let framed =
        |first: Vec<u8>, again: Vec<u8>| EndlessAnswer { first, again, ..streamed(frames, "", "") };
    let bomb = zipped(": zero\n".repeat(150_000).as_bytes());
    let bomb = EndlessAnswer {
        first: vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff],
        again: bomb,
        ..streamed("text/event-stream\r\ncontent-encoding: gzip", "", "")
    };
    let fault = EndlessAnswer {
        head: "HTTP/1.1 500 Oops\r\ncontent-type: text/html".to_owned(),
        ..streamed("", "", "<p>")
    };
    vec![
        ("a line", "openai", streamed(sse, "data: ", "x"), 1),
        ("an event", "openai", streamed(sse, "", &format!("data: {long}\n")), 1),
        ("comments", "openai", streamed(sse, "", &format!(": {long}\n\n")), 1),
        ("deltas", "openai", streamed(sse, "", &format!("data: {chunk}\n\n")), 1),
        ("a body", "openai", streamed("application/json", "{", " "), 1),
        ("blanks", "openai", streamed("application/json", "", "\n"), 1),
        ("an archive", "openai", bomb, 1),
        ("an error", "openai", fault, 4),
        ("a line", "ollama", streamed(lines, "{\"message\":\"", "x"), 1),
        ("blank lines", "ollama", streamed(lines, "", "\n"), 1),
        ("deltas", "ollama", streamed(lines, "", &format!("{line}\n")), 1),
        ("a frame", "bedrock", framed(prelude(usize::try_from(u32::MAX).unwrap(), 20), vec![0]), 1),
        ("a frame of the bound", "bedrock", framed(prelude(24 << 20, 20), vec![0]), 4),
        ("deltas", "bedrock", framed(Vec::new(), delta_frame(&long)), 1),
    ]
}

/// What has no end and is a tool's answer.
fn tool_answers() -> Vec<(&'static str, EndlessAnswer)> {
    let long = EndlessAnswer {
        head: "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1073741824"
            .to_owned(),
        ..streamed("", "[", "0,")
    };
    let archive = EndlessAnswer {
        first: vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff],
        again: zipped("zero zero ".repeat(100_000).as_bytes()),
        ..streamed("text/plain\r\ncontent-encoding: gzip", "", "")
    };
    let fault = EndlessAnswer {
        head: "HTTP/1.1 500 Oops\r\ncontent-type: text/html".to_owned(),
        ..streamed("", "", "<p>")
    };
    vec![
        ("ResponseTooLarge", streamed("text/plain", "", "x")),
        ("ResponseTooLarge", streamed("application/octet-stream", "", "\u{1}")),
        ("ResponseTooLarge", long),
        ("ResponseTooLarge", archive),
        ("HttpStatus", fault),
    ]
}

/// An agent that calls a tool at a URL once.
fn caller(url: &str) -> Value {
    let script = json!([{"tool_calls": [{"name": "t", "arguments": {}}]}, {"text": "Done."}]);
    let parameters = json!({"type": "object", "properties": {}});
    json!({
        "name": "a", "model": {"provider": "scripted", "name": "m", "script": script},
        "tools": [{"kind": "http", "name": "t", "url": url, "effect": "pure", "parameters": parameters}],
    })
}

#[tokio::test]
async fn an_answer_of_a_tool_without_an_end_is_a_failure_at_its_bound_and_so_is_memory() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let answers = tool_answers().into_iter();
    let started = answers.map(|(kind, answer)| async move { (kind, Endless::start(answer).await) });
    let endless = futures::future::join_all(started).await;
    let hosts = endless.iter().map(|(_, endless)| endless.host());
    let allow: Vec<String> = hosts.chain([tools.host.clone()]).collect();
    let mut child = Child::patient(&db.url, &allow.join(","));
    let address = child.address().await;
    drop(http_client(std::sync::Arc::default()).unwrap());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    // What an ordinary call takes has been taken before.
    for _ in 0..5 {
        run(&client, &address, &caller(&tools.url("t"))).await;
    }
    let before = child.peak_memory();
    for (kind, endless) in endless.iter().cycle().take(3 * endless.len()) {
        let ended = run(&client, &address, &caller(&format!("{}/t", endless.base_url()))).await;
        assert_eq!(ended["answer"], "Done.", "{ended}");
        let path = format!("http://{address}/v1/runs/{}/steps", ended["id"].as_str().unwrap());
        let steps = client.get(path).send().await.unwrap().text().await.unwrap();
        let steps: Value = serde_json::from_str(&steps).unwrap();
        let outcome = &steps["items"][1]["outcomes"][0];
        let told = (&outcome["kind"], &outcome["error"]["type"]);
        assert_eq!(told, (&json!("execution"), &json!(kind)), "{steps}");
        assert!(endless.sent() < MOST_SENT, "{}", endless.sent());
    }
    if let (Some(before), Some(after)) = (before, child.peak_memory()) {
        assert!(after - before < MOST_GROWN_BY_TOOLS, "{before} {after}");
    }
    assert_invariants(&db).await;
}

/// Starts a run on a server of another process and waits for its end.
async fn run(client: &reqwest::Client, address: &str, agent: &Value) -> Value {
    let request = client.post(format!("http://{address}/v1/runs")).header("prefer", "wait=60");
    let body = json!({"agent": agent, "input": "go"}).to_string();
    let request = request.header("content-type", "application/json").body(body);
    let answer = request.send().await.unwrap().text().await.unwrap();
    serde_json::from_str(&answer).unwrap()
}

#[tokio::test]
async fn an_answer_without_an_end_is_an_error_at_its_bound_and_so_is_memory() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let mut child = Child::patient(&db.url, &tools.host);
    let address = child.address().await;
    // It sets up what the client of this test needs too.
    drop(http_client(std::sync::Arc::default()).unwrap());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let before = child.peak_memory();
    for (what, provider, answer, attempts) in answers() {
        let endless = Endless::start(answer).await;
        let model = json!({"provider": provider, "name": "m", "base_url": endless.base_url()});
        let ended = run(&client, &address, &json!({"name": "a", "model": model})).await;
        let case = format!(
            "{what} of {provider}: {} bytes, {:?}, {ended}",
            endless.sent(),
            child.peak_memory()
        );
        let kind = if what == "an error" { "server" } else { "protocol" };
        let told = (&ended["status"], &ended["error"]["kind"], &ended["attempt"]);
        assert_eq!(told, (&json!("failed"), &json!(kind), &json!(attempts)), "{case}");
        assert!(endless.sent() < MOST_SENT * attempts, "{case}");
        assert_eq!(ended["steps"], 1, "{case}");
    }
    if let (Some(before), Some(after)) = (before, child.peak_memory()) {
        assert!(after - before < MOST_GROWN, "{before} {after}");
    }
    assert_invariants(&db).await;
}
