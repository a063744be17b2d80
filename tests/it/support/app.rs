//! A whole server on a port of its own, over a database of its own.

use agentling::app::{Running, Surroundings};
use agentling::config::{Config, Source};
use agentling::store::{PoolSettings, Store};
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};

use super::again::{Again, remember};
use super::{FakeTools, SseReader, TestDb, run_path};

/// A server, and a client that knows where it is.
pub(crate) struct TestApp {
    /// The server.
    pub(crate) running: Running,
    /// Its database.
    pub(crate) db: TestDb,
    /// Tools that its agents may call.
    pub(crate) tools: FakeTools,
    client: Client,
    key: Option<String>,
    /// It comes last, so that it is dropped after the server.
    again: Again,
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// The status.
    pub(crate) status: u16,
    /// The headers.
    pub(crate) headers: reqwest::header::HeaderMap,
    /// The body as it came.
    pub(crate) text: String,
}

impl Answer {
    /// The body as JSON; null when it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// A header, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The slug of a problem; empty when the answer is none.
    pub(crate) fn slug(&self) -> String {
        let json = self.json();
        let slug = json["type"].as_str().and_then(|text| text.strip_prefix("/problems/"));
        slug.unwrap_or_default().to_owned()
    }

    /// The body, of an answer that must have this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json()
    }

    /// The body, of an answer that must be this problem, as `problem+json`.
    #[track_caller]
    pub(crate) fn expect_problem(self, status: u16, slug: &str) -> Value {
        assert_eq!((self.status, self.slug().as_str()), (status, slug), "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        self.json()
    }
}

impl TestApp {
    /// A server with the settings of tests: quick leases, loopback, no key.
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// The same with further settings.
    pub(crate) async fn with(settings: &[(&str, &str)]) -> Self {
        let (db, tools) = (TestDb::new().await, FakeTools::start().await);
        Self::on(db, tools, settings, Surroundings::default()).await
    }

    /// A server over a database and tools that are there already.
    pub(crate) async fn on(
        db: TestDb,
        tools: FakeTools,
        settings: &[(&str, &str)],
        around: Surroundings,
    ) -> Self {
        let store = db.server_store(PoolSettings { api: 4, worker: 4, critical: 2 });
        Self::serving((db, tools), store, settings, around).await
    }

    /// A server with pools of these sizes.
    pub(crate) async fn over(
        db: &TestDb,
        tools: &FakeTools,
        pools: PoolSettings,
        settings: &[(&str, &str)],
    ) -> Self {
        let store = db.server_store(pools);
        Self::serving((db.clone(), tools.clone()), store, settings, Surroundings::default()).await
    }

    async fn serving(
        (db, tools): (TestDb, FakeTools),
        store: Store,
        settings: &[(&str, &str)],
        around: Surroundings,
    ) -> Self {
        remember(&db, settings);
        let config = test_config(&db, &tools, settings);
        let running = Running::start(&config, store, &around).await.expect("it starts");
        // The client brings no TLS of its own; the server's constructor has set one up.
        let client = Client::builder().no_proxy().build().unwrap();
        let again = Again::later(&db);
        Self { running, db, tools, client, key: None, again }
    }

    /// Says that the test changes what is on record, or has made it up: it cannot be driven again.
    pub(crate) fn falsifies_its_record(&self) {
        self.again.never();
    }

    /// Sends this key from now on.
    #[must_use]
    pub(crate) fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// The client, for requests without the key.
    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// The key that is sent.
    pub(crate) fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Where a path is.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.address)
    }

    /// A request to a path, to be completed and sent.
    pub(crate) fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method: Method = method.parse().unwrap();
        let request = self.client.request(method, self.url(path));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// Sends a request and reads the answer to its end.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Answer {
        let response = request.send().await.expect("the server answers");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { status, headers, text: response.text().await.expect("the body arrives") }
    }

    /// `GET`.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request("GET", path)).await
    }

    /// `DELETE`.
    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(self.request("DELETE", path)).await
    }

    /// `POST` with a JSON body.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(with_json(self.request("POST", path), body)).await
    }

    /// `PUT` with a JSON body.
    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(with_json(self.request("PUT", path), body)).await
    }

    /// Creates an agent.
    pub(crate) async fn create_agent(&self, spec: &Value) -> Value {
        self.post("/v1/agents", spec).await.expect(201)
    }

    /// Runs an inline agent to its end.
    pub(crate) async fn run(&self, agent: &Value, input: &str) -> Value {
        self.run_body(&json!({"agent": agent, "input": input})).await
    }

    /// Starts a run and waits for its end.
    pub(crate) async fn run_body(&self, body: &Value) -> Value {
        let request = with_json(self.request("POST", "/v1/runs"), body);
        let answer = self.send(request.header("prefer", "wait=60")).await;
        answer.expect(200)
    }

    /// Starts a run and answers it as it was accepted.
    pub(crate) async fn start_run(&self, body: &Value) -> Value {
        self.post("/v1/runs", body).await.expect(201)
    }

    /// A run, once it has ended.
    pub(crate) async fn ended(&self, run: &str) -> Value {
        loop {
            let found = self.get(&format!("/v1/runs/{run}?wait=60")).await.expect(200);
            if !matches!(found["status"].as_str(), Some("queued" | "running")) {
                return found;
            }
        }
    }

    /// Starts a run and answers it once it waits for its caller.
    pub(crate) async fn parked(&self, body: &Value) -> Value {
        let run = self.run_body(body).await;
        assert_eq!(run["status"], "requires_action", "{run}");
        run
    }

    /// Posts the result of a call that the caller ran.
    pub(crate) async fn give_result(&self, run: &Value, call: &str, output: &Value) -> Answer {
        let results = json!({"results": [{"tool_call_id": call, "output": output}]});
        self.post(&run_path(run, "tool-results"), &results).await
    }

    /// Decides about a call.
    pub(crate) async fn decide(&self, run: &Value, call: &str, decision: &Value) -> Answer {
        let mut decision = decision.clone();
        decision["tool_call_id"] = json!(call);
        self.post(&run_path(run, "approvals"), &json!({"decisions": [decision]})).await
    }

    /// Says what became of a call in doubt.
    pub(crate) async fn resolve(&self, run: &Value, call: &str, resolution: &Value) -> Answer {
        self.post(&run_path(run, &format!("tool-calls/{call}/resolution")), resolution).await
    }

    /// The run, once a worker has done with it what there was to do.
    pub(crate) async fn rested(&self, run: &Value) -> Value {
        self.ended(run["id"].as_str().unwrap()).await
    }

    /// How the calls of a run ended, in call order.
    pub(crate) async fn outcomes(&self, run: &Value) -> Vec<Value> {
        let steps = self.steps(run["id"].as_str().unwrap()).await;
        let outcomes = steps.iter().filter_map(|step| step["outcomes"].as_array().cloned());
        outcomes.flatten().collect()
    }

    /// The names of a run's events, in order.
    pub(crate) async fn event_names(&self, run: &Value) -> Vec<String> {
        let events = self.events(run["id"].as_str().unwrap()).await;
        events.iter().map(|event| event["event"].as_str().unwrap().to_owned()).collect()
    }

    /// The steps of a run.
    pub(crate) async fn steps(&self, run: &str) -> Vec<Value> {
        self.all(&format!("/v1/runs/{run}/steps")).await
    }

    /// The durable events of a run.
    pub(crate) async fn events(&self, run: &str) -> Vec<Value> {
        self.all(&format!("/v1/runs/{run}/events")).await
    }

    /// Opens the stream of a run, behind an event when one is given.
    pub(crate) async fn stream(&self, run: &str, after: Option<i64>) -> reqwest::Response {
        let mut request = self.request("GET", &format!("/v1/runs/{run}/stream"));
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        request.send().await.expect("the server answers")
    }

    /// Starts a run and opens its stream in one request.
    pub(crate) async fn start_stream(&self, body: &Value) -> SseReader {
        let request = with_json(self.request("POST", "/v1/runs/stream"), body);
        SseReader::of(request.send().await.expect("the server answers"))
    }

    /// All items of a list, page by page.
    pub(crate) async fn all(&self, path: &str) -> Vec<Value> {
        let mut items = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("{path}?limit=200{cursor}")).await.expect(200);
            items.extend(page["items"].as_array().cloned().unwrap_or_default());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return items,
            }
        }
    }
}

/// A request with a JSON body.
pub(crate) fn with_json(request: RequestBuilder, body: &Value) -> RequestBuilder {
    request.header("content-type", "application/json").body(body.to_string())
}

/// The settings of a server in a test.
pub(crate) fn test_config(db: &TestDb, tools: &FakeTools, settings: &[(&str, &str)]) -> Config {
    config_at(&db.url, &tools.host, settings)
}

/// The same for a database and tools that another process has.
pub(crate) fn config_at(url: &str, tools: &str, settings: &[(&str, &str)]) -> Config {
    let mut pairs = vec![
        ("DATABASE_URL", url),
        ("AGENTLING_LISTEN", "127.0.0.1:0"),
        ("AGENTLING_EGRESS_ALLOW", tools),
        // Fake models have ports that no list can name beforehand.
        ("AGENTLING_EGRESS_ANY_MODEL", "true"),
        ("AGENTLING_POLL_MS", "200"),
        ("AGENTLING_LEASE_MS", "2000"),
        ("AGENTLING_HEARTBEAT_MS", "200"),
        ("AGENTLING_SWEEP_MS", "200"),
        ("AGENTLING_DRAIN_SECS", "5"),
        // A busy machine is no reason to refuse what a test asks for.
        ("AGENTLING_LAG_LIMIT_MS", "60000"),
        ("AGENTLING_DB_WAIT_LIMIT_MS", "60000"),
        ("AGENTLING_NOTIFY", notify()),
    ];
    pairs.retain(|(name, _)| settings.iter().all(|(other, _)| other != name));
    pairs.extend_from_slice(settings);
    Config::read(&Source::of(pairs)).expect("the settings of tests fit")
}

/// Whether servers of tests send each other hints: on, unless the whole suite is run without.
#[expect(clippy::disallowed_methods, reason = "tests read the environment themselves")]
fn notify() -> &'static str {
    let chosen = std::env::var("AGENTLING_TEST_NOTIFY");
    if chosen.is_ok_and(|chosen| chosen == "off") { "off" } else { "on" }
}

/// An HTTP tool of the fake tools, whose calls in doubt are told to the model.
pub(crate) fn tool(tools: &FakeTools, name: &str, effect: &str, parameters: &Value) -> Value {
    json!({
        "kind": "http",
        "name": name,
        "description": format!("the fake tool {name}"),
        "parameters": parameters,
        "method": "POST",
        "url": tools.url(name),
        "effect": effect,
        "on_in_doubt": "observe",
    })
}
