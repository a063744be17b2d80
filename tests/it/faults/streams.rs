//! Readers that are cut off, that do not read, that come all at once, that are connected elsewhere, and
//! clients that go away.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use agentling::app::Surroundings;
use agentling::domain::id::{RunId, TenantId};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{
    Child, FakeTools, Gone, HeldModel, Piece, SseEvent, SseReader, TestApp, TestDb, agent_with,
    assert_invariants, calling, count, durable, events_in, execute, listed, request, saying,
    test_config, text_of, tool, until,
};

const TEXT: fn(&'static str) -> Piece = Piece::Text;

/// An agent with a tool.
fn agent(model: &Value, tools: &FakeTools) -> Value {
    let anything = json!({"type": "object", "additionalProperties": true});
    let tool = tool(tools, "one", "idempotent", &anything);
    json!({"name": "a", "model": model, "tools": [tool]})
}

fn id_of(events: &[SseEvent]) -> String {
    events[0].data["id"].as_str().unwrap().to_owned()
}

fn last_id(events: &[SseEvent]) -> Option<i64> {
    events.iter().filter_map(|event| event.id).max()
}

/// What a stream tells from an event on, to its end.
async fn rest(app: &TestApp, id: &str, after: Option<i64>) -> Vec<SseEvent> {
    SseReader::of(app.stream(id, after).await).rest().await
}

/// A server beside another one.
async fn beside(app: &TestApp) -> TestApp {
    TestApp::on(app.db.clone(), app.tools.clone(), &[], Surroundings::default()).await
}

/// A run that is broken off once, calls a tool and answers; every byte of its stream.
async fn eventful(app: &TestApp) -> Vec<u8> {
    let call = Piece::Call("one", json!({"n": 1}));
    let replies = [
        vec![TEXT("Wro"), Piece::Cut],
        vec![TEXT("Let me "), TEXT("look: 水."), call],
        vec![TEXT("It is "), TEXT("twelve – 正午.")],
    ];
    let model = HeldModel::saying(replies).await;
    let body = json!({"agent": agent(&model.spec(), &app.tools), "input": "?"});
    let request = crate::support::with_json(app.request("POST", "/v1/runs/stream"), &body);
    request.send().await.unwrap().bytes().await.unwrap().to_vec()
}

#[tokio::test]
async fn f65_a_stream_that_is_cut_after_any_byte_and_resumed_is_the_durable_list() {
    let app = TestApp::start().await;
    let bytes = eventful(&app).await;
    let whole = events_in(&bytes);
    let id = id_of(&whole);
    let all = listed(&app.events(&id).await);
    assert_eq!(durable(&whole), all);
    assert!(all.iter().any(|event| event["event"] == "turn.restarted"), "{all:?}");
    assert!(all.iter().any(|event| event["event"] == "tool.result"), "{all:?}");
    assert_eq!(text_of(&whole, "text.delta", (1, 1)), "Wro");
    assert_eq!(text_of(&whole, "text.delta", (1, 2)), "Let me look: 水.");
    assert_eq!(text_of(&whole, "text.delta", (2, 1)), "It is twelve – 正午.");
    // What follows depends on nothing but the last event that has come.
    let mut rests: BTreeMap<Option<i64>, Vec<Value>> = BTreeMap::new();
    for cut in 0..=bytes.len() {
        let seen = events_in(&bytes[..cut]);
        let after = last_id(&seen);
        if let Entry::Vacant(unknown) = rests.entry(after) {
            unknown.insert(durable(&rest(&app, &id, after).await));
        }
        let glued = [durable(&seen), rests[&after].clone()].concat();
        assert_eq!(glued, all, "cut after byte {cut}");
    }
    assert_eq!(rests.len(), all.len() + 1);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn f65_readers_that_come_back_in_mid_turn_get_one_snapshot_and_all_of_the_reply() {
    let app = TestApp::start().await;
    let mut said = vec![Piece::Hold];
    for text in ["Hel", "lo, ", "world", "."] {
        said.extend([TEXT(text), Piece::Hold]);
    }
    let model = HeldModel::saying([said]).await;
    let body = json!({"agent": agent(&model.spec(), &app.tools), "input": "?"});
    let mut first = app.start_stream(&body).await;
    let mut events = first.until("turn.started").await;
    let (id, after) = (id_of(&events), last_id(&events));
    // One comes back before anything was said, and one after every piece.
    let mut readers = vec![(SseReader::of(app.stream(&id, after).await), String::new())];
    let mut so_far = String::new();
    for text in ["Hel", "lo, ", "world", "."] {
        model.release();
        events.extend(first.until("text.delta").await);
        so_far.push_str(text);
        let mut reader = SseReader::of(app.stream(&id, after).await);
        let snapshot = reader.next().await.unwrap();
        assert_eq!((snapshot.name.as_str(), snapshot.id), ("snapshot", None));
        assert_eq!(snapshot.data["text"], so_far.as_str());
        readers.push((reader, so_far.clone()));
    }
    model.release();
    events.extend(first.rest().await);
    assert_eq!(text_of(&events, "text.delta", (1, 1)), "Hello, world.");
    let all = listed(&app.events(&id).await);
    assert_eq!(durable(&events), all);
    for (mut reader, snapshot) in readers {
        let rest = reader.rest().await;
        assert!(rest.iter().all(|event| event.name != "snapshot"), "{rest:?}");
        assert_eq!(snapshot + &text_of(&rest, "text.delta", (1, 1)), "Hello, world.");
        assert_eq!(durable(&rest), all[usize::try_from(after.unwrap()).unwrap()..]);
    }
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn f65_readers_on_another_server_see_the_deltas_of_a_reply_and_nothing_twice() {
    let app = TestApp::start().await;
    let said = vec![TEXT("Hel"), Piece::Hold, TEXT("lo, "), Piece::Hold, TEXT("world.")];
    let call = vec![TEXT("Look."), Piece::Call("one", json!({"n": 1}))];
    let model = HeldModel::saying([call, said]).await;
    app.tools.hold("one");
    let body = json!({"agent": agent(&model.spec(), &app.tools), "input": "?"});
    let mut here = app.start_stream(&body).await;
    let mut events = here.until("tool.call").await;
    let id = id_of(&events);
    let other = beside(&app).await;
    let mut there = SseReader::of(other.stream(&id, None).await);
    let mut seen = there.until("tool.call").await;
    assert!(seen.iter().all(|event| event.id.is_some()), "that turn is over: {seen:?}");
    app.tools.release("one");
    seen.extend(there.until("text.delta").await);
    // A reader that was on the first server comes back on the other one, in mid-turn.
    let after = last_id(&seen);
    let mut moved = SseReader::of(other.stream(&id, after).await);
    let snapshot = moved.next().await.unwrap();
    assert_eq!((snapshot.name.as_str(), &snapshot.data["text"]), ("snapshot", &json!("Hel")));
    model.release();
    seen.extend(there.until("text.delta").await);
    model.release();
    seen.extend(there.rest().await);
    events.extend(here.rest().await);
    let all = listed(&app.events(&id).await);
    for (events, who) in [(&events, "here"), (&seen, "there")] {
        assert_eq!(durable(events), all, "{who}");
        assert_eq!(text_of(events, "text.delta", (2, 1)), "Hello, world.", "{who}");
    }
    let moved = moved.rest().await;
    assert_eq!(text_of(&moved, "text.delta", (2, 1)), "lo, world.");
    assert_eq!(durable(&moved), all[usize::try_from(after.unwrap()).unwrap()..]);
    until(&app.db, "SELECT NOT EXISTS (SELECT FROM run_watch)").await;
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn nothing_is_passed_on_while_nobody_watches_elsewhere() {
    let app = TestApp::start().await;
    let _other = beside(&app).await;
    let said = vec![TEXT("Hel"), Piece::Hold, TEXT("lo"), Piece::Hold];
    let model = HeldModel::saying([said]).await;
    let agent = agent(&model.spec(), &app.tools);
    let run = app.start_run(&json!({"agent": agent, "input": "?"})).await;
    let id = run["id"].as_str().unwrap();
    // Whichever server has the run, only its own readers watch it; and then nobody does.
    until(&app.db, "SELECT turn = 1 FROM run").await;
    model.release();
    model.release();
    app.ended(id).await;
    assert_eq!(count(&app.db, "SELECT count(*) FROM run_delta").await, 0);
}

/// A run in the hands of a process that is about to die, in mid-reply.
async fn doomed(db: &TestDb, tools: &FakeTools, model: &HeldModel) -> (Child, RunId) {
    let config = test_config(db, tools, &[]);
    let around = Surroundings::default();
    let engine = agentling::app::engine(&config, &db.store(), &around).await.unwrap();
    let start = request(&agent(&model.spec(), tools));
    let run = engine.start(&TenantId::default(), start).await.unwrap().run.id;
    let child = Child::patient(&db.url, &tools.host);
    until(db, "SELECT status = 'running' FROM run").await;
    (child, run)
}

#[tokio::test]
async fn f65_a_reader_elsewhere_outlives_the_server_that_worked_on_the_run() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let lost = vec![TEXT("Wro"), Piece::Hold];
    let model = HeldModel::saying([lost, vec![TEXT("Ri"), TEXT("ght")]]).await;
    let (child, run) = doomed(&db, &tools, &model).await;
    let app = TestApp::on(db, tools, &[], Surroundings::default()).await;
    let id = run.to_string();
    let mut reader = SseReader::of(app.stream(&id, None).await);
    let mut events = reader.until("text.delta").await;
    child.kill().await;
    execute(&app.db, "UPDATE run_lease SET expires_at = now()").await;
    events.extend(reader.rest().await);
    assert_eq!(text_of(&events, "text.delta", (1, 1)), "Wro");
    assert_eq!(text_of(&events, "text.delta", (1, 2)), "Right");
    let names = events.iter().map(|event| event.name.as_str());
    let names: Vec<&str> = names.filter(|name| name.starts_with('t')).collect();
    assert_eq!(names[..3], ["turn.started", "text.delta", "turn.restarted"]);
    assert_eq!(durable(&events), listed(&app.events(&id).await));
    assert_invariants(&app.db).await;
}

/// Makes a run of many events out of a run of few: its last step again and again, each with a text of
/// 100,000 bytes.
async fn inflate(db: &TestDb) {
    execute(db, "UPDATE run_event SET seq = 1000 WHERE name = 'run.completed'").await;
    execute(
        db,
        "INSERT INTO step (tenant_id, thread_id, seq, step_id, run_id, turn, attempt, kind, op_id,
                           epoch, content, created_at)
         SELECT tenant_id, thread_id, seq + 10 + n, gen_random_uuid(), run_id, turn, attempt, kind,
                gen_random_uuid(), epoch,
                replace(content::text, 'MARK', repeat('x', 100000))::json, created_at
           FROM step, generate_series(1, 240) n
          WHERE kind = 'action'",
    )
    .await;
    execute(
        db,
        "INSERT INTO run_event (tenant_id, run_id, seq, name, data, created_at)
         SELECT tenant_id, run_id, 100 + seq, 'step.recorded',
                json_build_object('step', json_build_object('step_seq', seq, 'turn', 1)), created_at
           FROM step
          WHERE octet_length(content::text) > 100000",
    )
    .await;
}

/// Asks for the stream of a run and reads nothing of it.
async fn mute(address: &str, id: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET /v1/runs/{id}/stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn f64_readers_that_do_not_read_take_little_memory() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let app = TestApp::on(db, tools, &[], Surroundings::default()).await;
    let run = app.run(&agent_with(&[saying("MARK")], &[]), "?").await;
    let id = run["id"].as_str().unwrap();
    inflate(&app.db).await;
    let mut child = Child::patient(&app.db.url, &app.tools.host);
    let address = child.address().await;
    let url = format!("http://{address}/v1/runs/{id}/stream");
    let read = async || app.client().get(&url).send().await.unwrap().bytes().await.unwrap().len();
    assert!(read().await > 24_000_000);
    let before = child.peak_memory();
    let n = 20;
    let mut mutes = Vec::new();
    for _ in 0..n {
        mutes.push(mute(&address, id).await);
    }
    // They are served before one that reads is, and again while it reads.
    for _ in 0..2 {
        assert!(read().await > 24_000_000, "others are served meanwhile");
    }
    if let (Some(before), Some(after)) = (before, child.peak_memory()) {
        assert!(after - before < n * 2 * 1024 * 1024, "{before} {after}");
    }
    drop(mutes);
}

#[tokio::test]
async fn f64_a_reader_that_takes_nothing_is_cut_off_and_its_place_is_free_again() {
    let settings = [("AGENTLING_STALL_MS", "300"), ("AGENTLING_STREAMS", "1")];
    let app = TestApp::with(&settings).await;
    let run = app.run(&agent_with(&[saying("MARK")], &[]), "?").await;
    let id = run["id"].as_str().unwrap();
    inflate(&app.db).await;
    let mut stream = mute(&app.running.address.to_string(), id).await;
    // Its answer has begun, so its place is taken.
    stream.read_exact(&mut [0; 16]).await.unwrap();
    let path = format!("/v1/runs/{id}/stream");
    let request = || app.request("GET", &path).header("last-event-id", 1000);
    app.send(request()).await.expect_problem(429, "too-many-streams");
    let free = async { while app.send(request()).await.status == 429 {} };
    let free = tokio::time::timeout(std::time::Duration::from_mins(1), free).await;
    free.expect("the connection is closed");
    let mut taken = Vec::new();
    stream.read_to_end(&mut taken).await.unwrap_or_default();
    assert!(taken.len() < 24_000_000, "{}", taken.len());
}

#[tokio::test]
async fn f64_a_run_is_not_slowed_by_a_reader_that_takes_nothing() {
    let app = TestApp::start().await;
    app.tools.answer("one", |_| (200, json!("x".repeat(200_000))));
    let call = |n: i32| json!({"tool_calls": [{"name": "one", "arguments": {"n": n}}]});
    let script: Vec<Value> = (0..12).map(call).chain([saying("Done.")]).collect();
    let model = json!({"provider": "scripted", "name": "m", "script": script});
    let agent = agent(&model, &app.tools);
    let body = json!({"agent": agent, "input": "?"}).to_string();
    let mut stream = TcpStream::connect(app.running.address).await.unwrap();
    let head = "POST /v1/runs/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json";
    let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    until(&app.db, "SELECT EXISTS (SELECT FROM run WHERE finished_at IS NOT NULL)").await;
    let runs = app.all("/v1/runs").await;
    assert_eq!(runs[0]["status"], "completed", "{runs:?}");
    assert_invariants(&app.db).await;
}

/// A run that waits for its tool.
async fn held(app: &TestApp) -> String {
    app.tools.hold("one");
    let script = [calling(&["one"]), saying("Done.")];
    let model = json!({"provider": "scripted", "name": "m", "script": script});
    let body = json!({"agent": agent(&model, &app.tools), "input": "?"});
    let run = app.start_run(&body).await;
    app.tools.wait_for(1).await;
    run["id"].as_str().unwrap().to_owned()
}

const LOOKS: &str = "SELECT coalesce(sum(seq_scan + idx_scan), 0)::bigint
                       FROM pg_stat_user_tables WHERE relname = 'run_event'";

#[tokio::test]
async fn f66_many_readers_of_a_run_share_one_look_at_it() {
    // With a key, since a server without any looks for the first one at every request.
    let key = "a key of the operator".replace(' ', "-");
    let settings = [
        ("AGENTLING_STREAMS_PER_TENANT", "1000"),
        ("AGENTLING_KEEP_ALIVE_MS", "300"),
        ("AGENTLING_API_KEY", key.as_str()),
    ];
    let app = TestApp::with(&settings).await.with_key(&key);
    let id = held(&app).await;
    let n: i64 = 200;
    let before = count(&app.db, LOOKS).await;
    let open = join_all((0..n).map(async |_| {
        let mut reader = SseReader::of(app.stream(&id, None).await);
        let events = reader.until("tool.call").await;
        (reader, last_id(&events))
    }));
    let (readers, lasts): (Vec<SseReader>, Vec<Option<i64>>) = open.await.into_iter().unzip();
    drop(readers);
    // All of them lose their connection and come back where they were.
    let back = lasts.into_iter().map(async |last| SseReader::of(app.stream(&id, last).await));
    let mut readers = join_all(back).await;
    for _ in 0..15 {
        readers[0].aside().await;
    }
    let looks = count(&app.db, LOOKS).await - before;
    // A look of each at each time would have been some thousand.
    assert!(looks < n, "{looks}");
    app.tools.release("one");
    let all = listed(&app.events(&id).await);
    assert!(all.len() > 4);
    for rest in join_all(readers.iter_mut().map(SseReader::rest)).await {
        assert_eq!(rest.last().unwrap().name, "run.completed");
    }
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn f66_readers_that_lose_a_server_together_do_not_come_back_together() {
    let app = TestApp::start().await;
    let id = held(&app).await;
    let mut retries = BTreeSet::new();
    for _ in 0..20 {
        let hint = SseReader::of(app.stream(&id, None).await).aside().await;
        let retry = hint.lines().find_map(|line| line.strip_prefix("retry: ")).unwrap();
        retries.insert(retry.parse::<u32>().unwrap());
    }
    assert!(retries.len() > 10, "{retries:?}");
    assert!(retries.iter().all(|retry| (1_000..3_000).contains(retry)), "{retries:?}");
    app.tools.release("one");
    app.ended(&id).await;
}

/// What is left of a stream that its server ends before the run does, which is told when to come back.
async fn hung_up(mut reader: SseReader) -> Vec<SseEvent> {
    let events = reader.rest().await;
    assert!(reader.last_aside().contains("come back"), "{}", reader.last_aside());
    events
}

#[tokio::test]
async fn f42_a_server_that_drains_sends_its_readers_to_another_one() {
    let app = TestApp::with(&[("AGENTLING_DRAIN_SECS", "0")]).await;
    let id = held(&app).await;
    let mut reader = SseReader::of(app.stream(&id, None).await);
    let mut events = reader.until("tool.call").await;
    let (db, tools) = (app.db.clone(), app.tools.clone());
    let (rest, ()) = futures::join!(hung_up(reader), app.running.stop());
    events.extend(rest);
    assert!(events.iter().all(|event| event.name != "run.completed"), "{events:?}");
    tools.release("one");
    let app = TestApp::on(db, tools, &[], Surroundings::default()).await;
    events.extend(self::rest(&app, &id, last_id(&events)).await);
    assert_eq!(durable(&events), listed(&app.events(&id).await));
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_connection_that_has_lasted_long_enough_is_ended_and_the_next_one_goes_on() {
    let app = TestApp::with(&[("AGENTLING_STREAM_SECS", "1")]).await;
    let id = held(&app).await;
    let mut events = hung_up(SseReader::of(app.stream(&id, None).await)).await;
    assert!(events.iter().all(|event| event.name != "run.completed"), "{events:?}");
    app.tools.release("one");
    app.ended(&id).await;
    events.extend(rest(&app, &id, last_id(&events)).await);
    assert_eq!(durable(&events), listed(&app.events(&id).await));
}

/// A request that starts a run, and whose client sends nothing more.
async fn start_raw(app: &TestApp, path: &str, header: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(app.running.address).await.unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{header}");
    let head = format!("{head}Content-Type: application/json\r\nContent-Length: {}", body.len());
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn f63_a_client_that_goes_away_is_missed_before_the_first_byte_and_in_mid_stream() {
    let gone = Arc::new(Gone::default());
    let around = Surroundings { observer: Arc::<Gone>::clone(&gone), ..Surroundings::default() };
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let app = TestApp::on(db, tools, &[], around).await;
    // One that has its answer is not missed when it goes.
    app.run(&agent_with(&[saying("Hi.")], &[]), "?").await;
    app.start_stream(&json!({"agent": agent_with(&[saying("Hi.")], &[]), "input": "?"}))
        .await
        .rest()
        .await;
    app.tools.hold("one");
    let script = [calling(&["one"]), saying("Done.")];
    let model = json!({"provider": "scripted", "name": "m", "script": script});
    let body = json!({"agent": agent(&model, &app.tools), "input": "?"}).to_string();
    let waiting = start_raw(&app, "/v1/runs", "Prefer: wait=60\r\n", &body).await;
    app.tools.wait_for(1).await;
    drop(waiting);
    assert_eq!(gone.first(1).await.len(), 1);
    let mut streaming = start_raw(&app, "/v1/runs/stream", "", &body).await;
    app.tools.wait_for(2).await;
    streaming.read_exact(&mut [0; 64]).await.unwrap();
    drop(streaming);
    assert_eq!(gone.first(2).await.len(), 2);
    app.tools.release("one");
    let mut ids: Vec<String> = Vec::new();
    for run in gone.first(2).await {
        let ended = app.ended(&run.to_string()).await;
        assert_eq!(ended["status"], "completed", "a run goes on without its client");
        ids.push(run.to_string());
    }
    assert_eq!(BTreeSet::from_iter(ids).len(), 2);
    assert_invariants(&app.db).await;
}

const WAITS: &str = "SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                       WHERE d.datname = current_database() AND NOT l.granted)";

#[tokio::test]
async fn f63_a_client_that_goes_away_while_its_run_is_accepted_is_missed() {
    let gone = Arc::new(Gone::default());
    let around = Surroundings { observer: Arc::<Gone>::clone(&gone), ..Surroundings::default() };
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let app = TestApp::on(db, tools, &[], around).await;
    let body = json!({"agent": agent_with(&[saying("Hi.")], &[]), "input": "?"}).to_string();
    // The table is locked, so the request is at its commit for as long as we like.
    let mut lock = app.db.connect().await;
    sqlx::raw_sql("BEGIN; LOCK TABLE thread IN EXCLUSIVE MODE").execute(&mut lock).await.unwrap();
    let stream = start_raw(&app, "/v1/runs/stream", "", &body).await;
    until(&app.db, WAITS).await;
    drop(stream);
    sqlx::raw_sql("COMMIT").execute(&mut lock).await.unwrap();
    let run = gone.first(1).await[0].to_string();
    assert_eq!(app.ended(&run).await["status"], "completed");
    assert_invariants(&app.db).await;
}
