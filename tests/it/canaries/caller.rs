//! Callers, everything that they are answered, and who they say that they are.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use serde_json::Value;

/// A caller, whose answers are all kept.
#[derive(Clone)]
pub(super) struct Caller {
    base: String,
    key: String,
    client: Client,
    answers: Arc<Mutex<String>>,
    streams: Arc<Mutex<String>>,
}

/// An answer; without a status when the connection was lost.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    pub(super) status: Option<u16>,
    pub(super) text: String,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The body of an answer that must have this status.
    #[track_caller]
    pub(super) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, Some(status), "{}", self.text);
        self.json()
    }
}

impl Caller {
    pub(super) fn new(base: &str, key: &str) -> Self {
        let client = Client::builder().no_proxy().timeout(Duration::from_mins(2)).build().unwrap();
        let (answers, streams) = (Arc::default(), Arc::default());
        Self { base: base.to_owned(), key: key.to_owned(), client, answers, streams }
    }

    /// The same caller at a server that is elsewhere by now.
    pub(super) fn at(&self, base: &str) -> Self {
        Self { base: base.to_owned(), ..self.clone() }
    }

    /// A request without any credential.
    pub(super) fn bare(&self, method: &str, path: &str) -> RequestBuilder {
        self.client.request(method.parse().unwrap(), format!("{}{path}", self.base))
    }

    /// A request with the caller's key and a text as JSON.
    pub(super) fn request(&self, method: &str, path: &str, body: &str) -> RequestBuilder {
        let request = self.bare(method, path).bearer_auth(&self.key);
        if body.is_empty() {
            return request;
        }
        request.header("content-type", "application/json").body(body.to_owned())
    }

    /// Sends a request. Beside all that goes wrong, the database may have no room for a while: then it is sent
    /// again.
    pub(super) async fn send(&self, request: RequestBuilder) -> Answer {
        // An answer that is waited for may take a minute by itself.
        let answer =
            tokio::time::timeout(Duration::from_mins(3), self.send_until_taken(request)).await;
        answer.expect("the database has room in the end")
    }

    async fn send_until_taken(&self, request: RequestBuilder) -> Answer {
        loop {
            let again = request.try_clone().expect("it has no stream");
            let (head, answer) = read(again).await;
            self.keep(&head, &answer);
            if !answer.text.contains("/problems/database-busy") {
                return answer;
            }
        }
    }

    fn keep(&self, head: &str, answer: &Answer) {
        let mut answers = self.answers.lock().unwrap();
        answers.push_str(head);
        answers.push_str(&answer.text);
        answers.push('\n');
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.send(self.request("GET", path, "")).await
    }

    pub(super) async fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.send(self.request(method, path, &body.to_string())).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, body).await
    }

    /// Runs an inline agent to its end, through the stream, and answers the run.
    pub(super) async fn run(&self, agent: &Value, input: &str) -> Value {
        let body = serde_json::json!({ "agent": agent, "input": input }).to_string();
        let made = self.send(self.request("POST", "/v1/runs", &body)).await;
        let id = made.json()["id"].as_str().unwrap_or_else(|| panic!("{}", made.text)).to_owned();
        self.watch(&id).await;
        self.get(&format!("/v1/runs/{id}?wait=60")).await.json()
    }

    /// Reads the stream of a run to its end.
    pub(super) async fn watch(&self, run: &str) {
        let (head, answer) = read(self.request("GET", &format!("/v1/runs/{run}/stream"), "")).await;
        let mut streams = self.streams.lock().unwrap();
        streams.push_str(&head);
        streams.push_str(&answer.text);
    }

    pub(super) fn answers(&self) -> String {
        self.answers.lock().unwrap().clone()
    }

    pub(super) fn streams(&self) -> String {
        self.streams.lock().unwrap().clone()
    }
}

/// What came back: the status and headers as text, and the answer.
async fn read(request: RequestBuilder) -> (String, Answer) {
    let Ok(response) = request.send().await else { return Default::default() };
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.bytes().await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    (format!("{status} {headers:?}\n"), Answer { status: Some(status.as_u16()), text })
}
