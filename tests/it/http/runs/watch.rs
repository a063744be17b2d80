//! Watching a run: three ways that tell the same, streams that are cut and resumed, deltas.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::{
    FakeTools, HeldModel, Piece, SseEvent, SseReader, TestApp, durable, listed, normalised,
    read_stream, text_of, tool,
};

/// An agent that says something in pieces, calls two tools and answers.
fn talker(tools: &FakeTools) -> Value {
    let anything = json!({"type": "object", "additionalProperties": true});
    json!({
        "name": "talker",
        "model": {"provider": "scripted", "name": "m", "script": [
            {"thinking": "Let me see.", "text": "I will look it up, dear friend.", "chunks": 5,
             "tool_calls": [
                {"name": "one", "arguments": {"n": 1}},
                {"name": "two", "arguments": {"n": 2}},
            ]},
            {"text": "It is twelve o'clock – 正午.", "chunks": 4},
        ]},
        "tools": [
            tool(tools, "one", "idempotent", &anything),
            tool(tools, "two", "at_most_once", &anything),
        ],
    })
}

fn body(app: &TestApp) -> Value {
    json!({"agent": talker(&app.tools), "input": "What time is it?"})
}

#[tokio::test]
async fn a_run_is_the_same_however_it_is_watched() {
    let app = TestApp::start().await;
    let polled = app.start_run(&body(&app)).await;
    app.ended(polled["id"].as_str().unwrap()).await;
    let waited = app.run_body(&body(&app)).await;
    let streamed = app.start_stream(&body(&app)).await.rest().await;
    let id = streamed[0].data["id"].as_str().unwrap();
    let ids = [polled["id"].as_str().unwrap(), waited["id"].as_str().unwrap(), id];
    assert_eq!(durable(&streamed), listed(&app.events(id).await));
    let (mut steps, mut events) = (Vec::new(), Vec::new());
    for id in ids {
        steps.push(normalised(&app.steps(id).await));
        events.push(normalised(&app.events(id).await));
    }
    assert_eq!(steps[0].len(), 4);
    assert_eq!((&steps[0], &steps[0]), (&steps[1], &steps[2]));
    assert_eq!((&events[0], &events[0]), (&events[1], &events[2]));
}

#[tokio::test]
async fn a_stream_of_an_ended_run_replays_it_and_ends() {
    let app = TestApp::start().await;
    let run = app.run_body(&body(&app)).await;
    let id = run["id"].as_str().unwrap();
    let all = listed(&app.events(id).await);
    assert_eq!(all.last().unwrap()["event"], "run.completed");
    let replayed = SseReader::of(app.stream(id, None).await).rest().await;
    assert_eq!(durable(&replayed), all);
    assert!(replayed.iter().all(|event| event.id.is_some()), "{replayed:?}");
    let last = i64::try_from(all.len()).unwrap();
    assert_eq!(SseReader::of(app.stream(id, Some(last)).await).rest().await, []);
}

#[tokio::test]
async fn a_stream_that_is_cut_after_any_event_and_resumed_loses_and_doubles_nothing() {
    let app = TestApp::start().await;
    let run = app.run_body(&body(&app)).await;
    let id = run["id"].as_str().unwrap();
    let all = listed(&app.events(id).await);
    for cut in 0..=all.len() {
        let mut seen = durable(&read_stream(app.stream(id, None).await, cut).await);
        assert_eq!(seen.len(), cut);
        let after = i64::try_from(cut).unwrap();
        let rest = SseReader::of(app.stream(id, Some(after)).await).rest().await;
        seen.extend(durable(&rest));
        assert_eq!(seen, all, "cut after {cut}");
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_while_the_run_goes_on_loses_and_doubles_nothing() {
    let app = TestApp::start().await;
    app.tools.hold("one");
    app.tools.hold("two");
    let run = app.start_run(&body(&app)).await;
    let id = run["id"].as_str().unwrap();
    app.tools.wait_for(2).await;
    // Both calls are out, so this is all there is before they come back.
    let so_far = app.events(id).await.len();
    let resumed = (0..=so_far).map(|cut| {
        let app = &app;
        async move {
            let before = read_stream(app.stream(id, None).await, cut).await;
            let after = i64::try_from(cut).unwrap();
            (durable(&before), SseReader::of(app.stream(id, Some(after)).await))
        }
    });
    let open = join_all(resumed).await;
    app.tools.release("one");
    app.tools.release("two");
    app.ended(id).await;
    let all = listed(&app.events(id).await);
    assert!(all.len() > so_far);
    for (cut, (mut seen, mut reader)) in open.into_iter().enumerate() {
        seen.extend(durable(&reader.rest().await));
        assert_eq!(seen, all, "cut after {cut}");
    }
}

#[tokio::test]
async fn deltas_come_between_the_start_of_their_turn_and_its_calls_and_add_up_to_the_reply() {
    let app = TestApp::start().await;
    let (hold, text) = (Piece::Hold, Piece::Text);
    let model = HeldModel::saying([vec![
        hold.clone(),
        text("Let "),
        hold.clone(),
        text("me "),
        hold.clone(),
        text("look: 水."),
        hold,
        Piece::Call("one", json!({"n": 1})),
    ]])
    .await;
    let mut agent = talker(&app.tools);
    agent["model"] = model.spec();
    let mut stream = app.start_stream(&json!({"agent": agent, "input": "?"})).await;
    let mut events = stream.until("turn.started").await;
    for _ in 0..3 {
        model.release();
        events.extend(stream.until("text.delta").await);
    }
    model.release();
    events.extend(stream.rest().await);
    let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
    let told = ["turn.started", "text.delta", "text.delta", "text.delta"];
    assert_eq!(names[3..7], told);
    let call = names.iter().position(|name| *name == "tool.call").unwrap();
    assert!(names[7..call].iter().all(|name| *name == "tool_call.delta"), "{names:?}");
    assert_eq!(text_of(&events, "text.delta", (1, 1)), "Let me look: 水.");
    let id = events[0].data["id"].as_str().unwrap();
    let steps = app.steps(id).await;
    assert_eq!(steps[1]["reply"]["parts"][0]["text"], "Let me look: 水.");
    assert_eq!(durable(&events), listed(&app.events(id).await));
}

#[tokio::test]
async fn an_attempt_that_broke_off_is_voided_and_the_next_one_adds_up() {
    let app = TestApp::start().await;
    let (hold, text) = (Piece::Hold, Piece::Text);
    let model = HeldModel::saying([
        vec![hold.clone(), text("Wro"), hold.clone(), Piece::Cut],
        vec![hold.clone(), text("Ri"), hold.clone(), text("ght"), hold],
    ])
    .await;
    let agent = json!({"name": "a", "model": model.spec()});
    let mut stream = app.start_stream(&json!({"agent": agent, "input": "?"})).await;
    let mut events = stream.until("turn.started").await;
    model.release();
    events.extend(stream.until("text.delta").await);
    model.release();
    events.extend(stream.until("turn.restarted").await);
    for _ in 0..2 {
        model.release();
        events.extend(stream.until("text.delta").await);
    }
    model.release();
    events.extend(stream.rest().await);
    assert_eq!(text_of(&events, "text.delta", (1, 1)), "Wro");
    assert_eq!(text_of(&events, "text.delta", (1, 2)), "Right");
    let last = events.last().unwrap();
    assert_eq!((last.name.as_str(), &last.data["answer"]), ("run.completed", &json!("Right")));
    assert_eq!(last.data["steps"], 3, "nothing of the first attempt is recorded");
}

#[tokio::test]
async fn a_reader_that_comes_back_in_the_middle_of_a_reply_gets_what_had_arrived() {
    let app = TestApp::start().await;
    let (hold, text) = (Piece::Hold, Piece::Text);
    let said = vec![text("Hel"), hold.clone(), text("lo"), hold];
    let model = HeldModel::saying([said]).await;
    let agent = json!({"name": "a", "model": model.spec()});
    let mut first = app.start_stream(&json!({"agent": agent, "input": "?"})).await;
    let before = first.until("text.delta").await;
    let id = before[0].data["id"].as_str().unwrap().to_owned();
    let seen = before.iter().filter_map(|event| event.id).max();
    drop(first);
    let mut second = SseReader::of(app.stream(&id, seen).await);
    let snapshot = second.next().await.unwrap();
    assert_eq!((snapshot.name.as_str(), snapshot.id), ("snapshot", None));
    let expected = json!({"turn": 1, "attempt": 1, "text": "Hel", "thinking": ""});
    assert_eq!(snapshot.data, expected);
    model.release();
    let mut after = second.until("text.delta").await;
    model.release();
    after.extend(second.rest().await);
    assert_eq!(text_of(&after, "text.delta", (1, 1)), "lo");
    let all: Vec<SseEvent> = before.into_iter().chain(after).collect();
    assert_eq!(durable(&all), listed(&app.events(&id).await));
}

#[tokio::test]
async fn a_cursor_ahead_of_the_run_is_refused() {
    let app = TestApp::start().await;
    let run = app.run_body(&body(&app)).await;
    let id = run["id"].as_str().unwrap();
    let last = i64::try_from(app.events(id).await.len()).unwrap();
    let request = app.request("GET", &format!("/v1/runs/{id}/stream"));
    let request = request.header("last-event-id", last + 1);
    app.send(request).await.expect_problem(409, "stream-cursor-ahead");
}

#[tokio::test]
async fn a_cursor_that_is_no_event_id_is_refused() {
    let app = TestApp::start().await;
    let run = app.run_body(&body(&app)).await;
    let path = format!("/v1/runs/{}/stream", run["id"].as_str().unwrap());
    for garbage in ["", "x", "-1", "+1", "1.0", "1 2", "0x1", "99999999999999999999"] {
        let request = app.request("GET", &path).header("last-event-id", garbage);
        app.send(request).await.expect_problem(400, "invalid-last-event-id");
    }
}

#[tokio::test]
async fn a_reader_that_takes_no_events_is_refused_and_starts_no_run() {
    let app = TestApp::start().await;
    let request = crate::support::with_json(app.request("POST", "/v1/runs/stream"), &body(&app));
    let request = request.header("accept", "application/json");
    app.send(request).await.expect_problem(406, "not-acceptable");
    assert_eq!(app.all("/v1/runs").await, Vec::<Value>::new());
    let run = app.run_body(&body(&app)).await;
    let path = format!("/v1/runs/{}/stream", run["id"].as_str().unwrap());
    let request = app.request("GET", &path).header("accept", "text/html");
    app.send(request).await.expect_problem(406, "not-acceptable");
}

#[tokio::test]
async fn a_stream_of_a_run_that_is_not_there_is_not_found() {
    let app = TestApp::start().await;
    let path = "/v1/runs/run_0198f2c4a1b27cde8f00112233445566/stream";
    app.get(path).await.expect_problem(404, "not-found");
}
