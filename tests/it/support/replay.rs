//! The replay server of recorded provider traffic, and the recordings.

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::{FakeTools, tool};

/// The replay server, ended with the test.
pub(crate) struct Replay {
    child: Child,
    /// `http://127.0.0.1:port`.
    pub(crate) origin: String,
}

impl Drop for Replay {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Replay {
    /// Starts it; `None`, said plainly, without Python or the shared folder.
    #[expect(clippy::print_stderr, reason = "a test that checks nothing must say so")]
    pub(crate) fn start() -> Option<Self> {
        let (program, recordings) = (shared("tools/mock_provider.py")?, shared("data/providers")?);
        let spawned = Command::new("python3")
            .arg(program)
            .arg("--fixtures")
            .arg(recordings)
            .args(["--port", "0"])
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = spawned else {
            eprintln!("skipped: there is no python3");
            return None;
        };
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        Some(Self { child, origin: told["listening"].as_str().unwrap().to_owned() })
    }

    /// The base address under which a recording answers, misbehaving as told.
    pub(crate) fn base_url(&self, recording: &str, chaos: &str) -> String {
        format!("{}{}/v1", self.origin, self.prefix(recording, chaos))
    }

    /// What a path begins with under which a recording answers, misbehaving as told.
    #[expect(clippy::unused_self, reason = "prefixes are the replay server's own")]
    pub(crate) fn prefix(&self, recording: &str, chaos: &str) -> String {
        let chaos = chaos.replace('%', "%25").replace('=', "%3D").replace(';', "%3B");
        let prefix = if chaos.is_empty() { String::new() } else { format!("/c/{chaos}") };
        format!("/f/{recording}{prefix}")
    }

    /// The same under an origin of its own: how often a call may be made again is counted for each.
    pub(crate) async fn base_url_apart(&self, recording: &str, chaos: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let server = self.origin.trim_start_matches("http://").to_owned();
        #[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(client, server.clone()));
            }
        });
        self.base_url(recording, chaos).replacen(&self.origin, &origin, 1)
    }

    /// These recordings, one after the other. The replay server takes such a list in a header only,
    /// so a relay in between adds it.
    pub(crate) async fn script(&self, recordings: &[&str]) -> Script {
        let gate = Arc::new(Semaphore::new(0));
        let relay = Relay {
            client: reqwest::Client::builder().no_proxy().build().unwrap(),
            origin: self.origin.clone(),
            script: recordings.join(","),
            gate: Arc::clone(&gate),
        };
        let router = Router::new().fallback(forward).with_state(Arc::new(relay));
        Script { base_url: format!("{}/v1", super::model::spawn(router).await), gate }
    }
}

/// Passes bytes on both ways until either side is done.
async fn relay(mut client: TcpStream, server: String) -> std::io::Result<(u64, u64)> {
    let mut server = TcpStream::connect(server).await?;
    copy_bidirectional(&mut client, &mut server).await
}

/// Recordings that answer one after the other.
pub(crate) struct Script {
    /// Where they answer.
    pub(crate) base_url: String,
    gate: Arc<Semaphore>,
}

impl Script {
    /// Lets the second half of this many answers through; each stops after its first half.
    pub(crate) fn release(&self, answers: usize) {
        self.gate.add_permits(answers);
    }
}

struct Relay {
    client: reqwest::Client,
    origin: String,
    script: String,
    gate: Arc<Semaphore>,
}

async fn forward(State(relay): State<Arc<Relay>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 22).await.unwrap();
    let request = relay
        .client
        .request(parts.method, format!("{}{}", relay.origin, parts.uri.path()))
        .header("content-type", "application/json")
        .header("x-fixture", &relay.script)
        .body(body);
    let answer = request.send().await.unwrap();
    let content_type = answer.headers()["content-type"].clone();
    let response = Response::builder().status(answer.status()).header("content-type", content_type);
    let mut head = answer.bytes().await.unwrap();
    let tail = head.split_off(head.len() / 2);
    let gate = Arc::clone(&relay.gate);
    let rest = async move {
        gate.acquire().await.unwrap().forget();
        tail
    };
    let halves = stream::once(async { head }).chain(stream::once(rest));
    response.body(Body::from_stream(halves.map(Ok::<_, Infallible>))).unwrap()
}

/// A recorded exchange.
pub(crate) struct Recording(Value);

impl Recording {
    /// Every recorded Chat Completions exchange, by id.
    pub(crate) fn all() -> Vec<Self> {
        let Some(folder) = shared("data/providers") else { return Vec::new() };
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = entries.filter(|path| path.extension().is_some_and(|ext| ext == "json"));
        let texts = files.map(|path| std::fs::read_to_string(path).unwrap());
        let mut all: Vec<_> =
            texts.map(|text| Self(serde_json::from_str(&text).unwrap())).collect();
        all.retain(|recording| recording.0["api"] == "openai_chat");
        all.sort_by(|one, other| one.id().cmp(other.id()));
        all
    }

    /// The recording with this id.
    pub(crate) fn named(id: &str) -> Self {
        Self::all().into_iter().find(|recording| recording.id() == id).unwrap()
    }

    /// The recording with this id, of any wire.
    pub(crate) fn of_any_wire(id: &str) -> Self {
        let path = shared(&format!("data/providers/{id}.json")).unwrap();
        Self(serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
    }

    /// The bytes of its answer, which is a stream.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let response = &self.0["response"];
        let text = response["sse"].as_str().or_else(|| response["text"].as_str());
        let decoded = || BASE64.decode(response["base64"].as_str().unwrap()).unwrap();
        text.map_or_else(decoded, |text| text.as_bytes().to_vec())
    }

    /// Its id.
    pub(crate) fn id(&self) -> &str {
        self.0["id"].as_str().unwrap()
    }

    /// Whether OpenAI itself answered so; other recordings are of other vendors or constructed.
    pub(crate) fn is_of_openai(&self) -> bool {
        self.0["provider"] == "openai" && self.0["source"]["kind"] == "recorded"
    }

    /// Whether the reply was asked for as a stream.
    pub(crate) fn streams(&self) -> bool {
        self.0["stream"] == true
    }

    /// Whether these are the bytes of the answer. Of a body that is no stream only the JSON is on
    /// record.
    pub(crate) fn is_answer(&self, bytes: &[u8]) -> bool {
        let response = &self.0["response"];
        response["sse"].as_str().map_or_else(
            || serde_json::from_slice::<Value>(bytes).is_ok_and(|json| json == response["body"]),
            |sse| sse.as_bytes() == bytes,
        )
    }

    /// How the reply has to be read.
    pub(crate) fn expected(&self) -> &Value {
        &self.0["expected"]
    }

    /// The tools of the recorded request, served by the fake tools.
    pub(crate) fn tools(&self, fakes: &FakeTools) -> Vec<Value> {
        let tools = self.0["request"]["body"]["tools"].as_array().into_iter().flatten();
        tools
            .map(|recorded| {
                let function = &recorded["function"];
                let name = function["name"].as_str().unwrap();
                tool(fakes, name, "pure", &function["parameters"])
            })
            .collect()
    }

    /// An agent that gets this reply from a base address.
    pub(crate) fn agent(&self, base_url: &str, fakes: &FakeTools) -> Value {
        let settings = json!({"stream": self.streams()});
        let model = json!({
            "provider": "openai", "name": "m", "base_url": base_url, "settings": settings,
        });
        json!({"name": "a", "model": model, "tools": self.tools(fakes), "loop_limit": 2})
    }

    /// The calls of the reply as names and argument texts, read without the code under test.
    pub(crate) fn calls(&self) -> Vec<(String, String)> {
        let response = &self.0["response"];
        let messages = match response["sse"].as_str() {
            Some(sse) => sse.lines().filter_map(|line| chunk(line, "delta")).collect(),
            None => vec![response["body"]["choices"][0]["message"].clone()],
        };
        let mut calls: Vec<(String, String)> = Vec::new();
        for (nth, call) in messages
            .iter()
            .flat_map(|message| message["tool_calls"].as_array().into_iter().flatten().enumerate())
        {
            let index = call["index"].as_u64().map_or(nth, |index| usize::try_from(index).unwrap());
            calls.resize_with(calls.len().max(index + 1), Default::default);
            let piece = |name: &str| call["function"][name].as_str().unwrap_or_default();
            calls[index].0.push_str(piece("name"));
            calls[index].1.push_str(piece("arguments"));
        }
        calls
    }
}

fn chunk(line: &str, member: &str) -> Option<Value> {
    let chunk: Value = serde_json::from_str(line.strip_prefix("data:")?.trim()).ok()?;
    chunk["choices"].get(0).map(|choice| choice[member].clone())
}

/// A path in the folder that holds what is shared between checkouts, or `None`, said plainly, when
/// there is no such folder.
#[expect(clippy::disallowed_methods, reason = "tests are told by the environment where it is")]
#[expect(clippy::print_stderr, reason = "a test that checks nothing must say so")]
fn shared(of: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared");
    let root = std::env::var("AGENTLING_SHARED").unwrap_or_else(|_| beside.to_owned());
    let path = PathBuf::from(root).join(of);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is absent", path.display());
    None
}
