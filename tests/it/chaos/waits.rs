//! How long is waited: for the next attempt as long as the provider asks, and for an answer as long as
//! the turn has.

use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};
use futures::future::join_all;
use serde_json::Value;

use super::{Stage, WIRES, Wire};

/// The least wait by how it is asked for, in milliseconds: without a wish our own first one.
const FORMS: &[(&str, i64)] = &[
    ("retry=1", 1_000),
    ("retry=1.2", 1_200),
    ("retry=ms:1100", 1_100),
    ("retry=ms:0", 500),
    ("retry=0", 500),
    ("retry=soon", 500),
    ("retry=none", 500),
];

fn sent_at(request: &Value) -> DateTime<Utc> {
    request["sent_at"].as_str().unwrap().parse().unwrap()
}

/// When the two attempts were made of a run whose first one is refused so.
async fn refused_once(stage: &Stage, wire: &Wire, spec: &str) -> (DateTime<Utc>, DateTime<Utc>) {
    let answers = [(wire.said, spec.to_owned()), (wire.said, String::new())];
    let ended = stage.play(wire, &answers).await;
    let case = format!("{} {spec}: {}", wire.provider, ended.run);
    assert_eq!((ended.completed(), ended.requests.len()), (true, 2), "{case}");
    let status: u64 = spec.trim_start_matches("fail=").split('x').next().unwrap().parse().unwrap();
    assert_eq!(ended.requests[0]["status"], status, "{case}");
    (sent_at(&ended.requests[0]), sent_at(&ended.requests[1]))
}

#[tokio::test]
async fn the_next_attempt_is_made_no_earlier_than_the_provider_asks() {
    let Some(stage) = Stage::set().await else { return };
    let statuses = ["429", "503", "529"];
    let cases = WIRES.iter().flat_map(|wire| statuses.map(|status| (wire, status)));
    let cases = cases.flat_map(|case| FORMS.iter().map(move |form| (case, form)));
    join_all(cases.map(async |((wire, status), (form, least))| {
        let spec = format!("fail={status}x9999;{form}");
        let (first, second) = refused_once(&stage, wire, &spec).await;
        // Gemini's own body asks for a second, and a header that says nothing does not overrule it.
        let in_body = wire.provider == "gemini" && status == "429" && *form != "retry=0";
        let least = if in_body { 1_000.max(*least) } else { *least };
        let waited = (second - first).num_milliseconds();
        assert!(waited >= least, "{} {spec}: {waited}", wire.provider);
    }))
    .await;
    stage.assert_invariants().await;
}

#[tokio::test]
async fn the_next_attempt_is_made_no_earlier_than_the_date_that_the_provider_names() {
    let Some(stage) = Stage::set().await else { return };
    join_all(WIRES.iter().map(async |wire| {
        let (first, second) = refused_once(&stage, wire, "fail=429x9999;retry=date").await;
        // The date is the whole second in which the one after the refusal lies.
        let second_after = TimeDelta::seconds(1);
        let date = (first + second_after).duration_trunc(second_after).unwrap();
        assert!(second >= date, "{}: {first} {second}", wire.provider);
    }))
    .await;
}

#[tokio::test]
async fn a_provider_that_asks_for_more_patience_than_there_is_has_failed() {
    let Some(stage) = Stage::set().await else { return };
    join_all(WIRES.iter().map(async |wire| {
        let answers = [(wire.said, "fail=429x9999;retry=200".to_owned())];
        let ended = stage.play(wire, &answers).await;
        assert_eq!((ended.completed(), ended.failures()), (false, vec!["rate_limit"]));
        let answers = [(wire.said, "fail=429x9999;retry=5".to_owned())];
        let ended = stage.play_within(4_000, wire, &answers).await;
        assert_eq!((ended.completed(), ended.failures()), (false, vec!["rate_limit"]));
    }))
    .await;
}

#[tokio::test]
async fn an_answer_that_stalls_beyond_the_time_of_its_turn_has_failed() {
    let Some(stage) = Stage::set().await else { return };
    let cases = WIRES.iter().flat_map(|wire| {
        ["stall=50%:9", "stall=0%:9", "ttfb=9000", "delay=9000"].map(|spec| (wire, spec))
    });
    join_all(cases.map(async |(wire, spec)| {
        let ended = stage.play_within(900, wire, &[(wire.said, spec.to_owned())]).await;
        let case = format!("{} {spec}: {}", wire.provider, ended.run);
        assert_eq!((ended.completed(), ended.failures()), (false, vec!["timeout"]), "{case}");
        let head_came = spec != "delay=9000";
        assert_eq!(ended.requests[0]["status"] == 200, head_came, "{case}");
        let received = stage.received(&ended.requests[0]).await;
        assert_eq!(received.is_empty(), !spec.starts_with("stall=5"), "{case}");
    }))
    .await;
    stage.assert_invariants().await;
}
