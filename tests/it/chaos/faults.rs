//! What providers and the way to them do wrong, on every wire: what is harmless, what passes and what
//! does not.

use futures::future::join_all;
use serde_json::Value;

use super::{Stage, WIRES, Wire};

/// Another shape of the same answer.
const HARMLESS: &[&str] = &[
    "delay=120",
    "ttfb=120",
    "gap=5;split=200",
    "stall=50%:0.3",
    "split=1",
    "split=rand:7",
    "split=event",
    "split=at:1,2,3,5,8,13,21,34,55,89",
    "gzip=1",
    "gzip=1;split=1",
    "crlf=1",
    "crlf=1;split=1",
    "cr=1",
    "bom=1",
    "comments=1",
    "multiline=1",
    "unknown=1",
    "noeol=1",
    "close=1",
    "length=1",
];

/// What is no stream of the wire: unreadable, or readable and not at its end.
const GARBLED: &[&str] = &["protocol", "truncated_stream"];

/// Failures that the next attempt may not have, with their kinds.
const PASSING: &[(&str, &[&str])] = &[
    ("fail=408x9;retry=none", &["timeout"]),
    ("fail=409x9;retry=none", &["unavailable"]),
    ("fail=500x9;retry=none", &["server"]),
    ("fail=502x9;retry=none", &["server"]),
    ("fail=503x9;retry=none", &["overloaded"]),
    ("fail=504x9;retry=none", &["timeout"]),
    ("fail=529x9;retry=none", &["overloaded"]),
    ("fail=dropx9", &["transport"]),
    ("garbage=html", GARBLED),
    ("garbage=text", GARBLED),
    ("garbage=json", GARBLED),
    ("garbage=trunc", GARBLED),
    ("garbage=empty", GARBLED),
    ("garbage=binary", GARBLED),
    ("garbage=null", GARBLED),
    ("garbage=array", GARBLED),
    ("cut=50%;cutmode=fin", &["transport"]),
    ("cut=50%;length=1", &["transport"]),
    ("cut=50%;gzip=1", &["transport"]),
    ("cut=50%;gzip=1;clean=1", &["transport", "truncated_stream"]),
    // Ollama's errors are a message, with nothing that says what they are.
    ("errorevent=1%:overloaded", &["overloaded", "server"]),
    ("errorevent=50%:overloaded", &["overloaded", "server"]),
    ("errorevent=50%:rate", &["rate_limit", "server"]),
    ("errorevent=50%:server", &["server"]),
];

/// Those of them that are let stay: one of each sort.
const STAYING: &[&str] = &[
    "fail=503x9;retry=none",
    "fail=dropx9",
    "garbage=html",
    "garbage=trunc",
    "cut=50%;cutmode=fin",
    "errorevent=50%:overloaded",
];

/// Failures that every attempt would have.
const LASTING: &[(&str, &[&str])] = &[
    ("fail=400x9", &["bad_request"]),
    ("fail=401x9", &["auth"]),
    ("fail=402x9", &["quota"]),
    // A code in the body that speaks of the key is believed before the status.
    ("fail=403x9", &["permission", "auth"]),
    ("fail=404x9", &["not_found"]),
    ("fail=413x9", &["too_large"]),
    ("fail=422x9", &["bad_request"]),
    ("fail=501x9", &["server"]),
];

/// The count of failures is kept by name; every request of these tests fails anew.
fn always(spec: &str) -> String {
    spec.replace("x9", "x9999")
}

#[tokio::test]
async fn an_answer_in_any_shape_is_the_same_reply() {
    let Some(stage) = Stage::set().await else { return };
    let replies = stage.replies().await;
    let cases = WIRES.iter().zip(&replies);
    let cases = cases.flat_map(|case| HARMLESS.iter().map(move |spec| (case, *spec)));
    join_all(cases.map(async |((wire, whole), spec)| {
        let ended = stage.play(wire, &[(wire.said, spec.to_owned())]).await;
        let case = format!("{} {spec}: {}", wire.provider, ended.run);
        assert_eq!((ended.completed(), ended.requests.len()), (true, 1), "{case}");
        assert_eq!(ended.reply(), *whole, "{case}");
    }))
    .await;
    stage.assert_invariants().await;
}

async fn passes(stage: &Stage, (wire, whole): (&Wire, &Value), spec: &str, kinds: &[&str]) {
    let answers = [(wire.said, always(spec)), (wire.said, String::new())];
    let ended = stage.play(wire, &answers).await;
    let case = format!("{} {spec}: {} {:?}", wire.provider, ended.run, ended.failures());
    assert_eq!((ended.completed(), ended.requests.len()), (true, 2), "{case}");
    assert!(ended.failures().iter().all(|kind| kinds.contains(kind)), "{case}");
    assert_eq!(ended.reply(), *whole, "{case}");
}

/// Three failures are borne, and a fourth ends the run.
async fn stays(stage: &Stage, wire: &Wire, spec: &str, kinds: &[&str]) {
    let ended = stage.play(wire, &[(wire.said, always(spec))]).await;
    let case = format!("{} {spec}: {} {:?}", wire.provider, ended.run, ended.failures());
    assert_eq!((ended.completed(), ended.requests.len()), (false, 4), "{case}");
    assert!(ended.failures().iter().all(|kind| kinds.contains(kind)), "{case}");
}

#[tokio::test]
async fn a_fault_that_passes_costs_an_attempt_and_one_that_stays_the_run() {
    let Some(stage) = Stage::set().await else { return };
    let replies = stage.replies().await;
    let cases = WIRES.iter().zip(&replies);
    let cases = cases.flat_map(|case| PASSING.iter().map(move |fault| (case, fault)));
    join_all(cases.map(async |(case, (spec, kinds))| {
        passes(&stage, case, spec, kinds).await;
        if STAYING.contains(spec) {
            stays(&stage, case.0, spec, kinds).await;
        }
    }))
    .await;
    stage.assert_invariants().await;
}

#[tokio::test]
async fn frames_of_which_one_byte_is_wrong_are_asked_for_again() {
    let Some(stage) = Stage::set().await else { return };
    let replies = stage.replies().await;
    let framed = WIRES.iter().zip(&replies).filter(|(wire, _)| wire.provider == "bedrock");
    let cases = framed.flat_map(|case| (0..=100).map(move |percent| (case, percent)));
    join_all(cases.map(async |(case, percent)| {
        passes(&stage, case, &format!("corrupt={percent}%"), &["protocol"]).await;
    }))
    .await;
    stage.assert_invariants().await;
}

#[tokio::test]
async fn a_refusal_ends_the_run_at_once() {
    let Some(stage) = Stage::set().await else { return };
    let cases = WIRES.iter().flat_map(|wire| LASTING.iter().map(move |fault| (wire, fault)));
    // Two wires do not say in mid-stream whose fault it is.
    let speaking =
        WIRES.iter().filter(|wire| !["ollama", "openai_responses"].contains(&wire.provider));
    let cases = cases.chain(
        speaking.map(|wire| (wire, &("errorevent=50%:invalid", &["bad_request"] as &[&str]))),
    );
    join_all(cases.map(async |(wire, (spec, kinds))| {
        let ended = stage.play(wire, &[(wire.said, always(spec))]).await;
        let case = format!("{} {spec}: {}", wire.provider, ended.run);
        assert_eq!((ended.completed(), ended.requests.len()), (false, 1), "{case}");
        assert!(kinds.contains(&ended.failures()[0]), "{case}");
    }))
    .await;
    stage.assert_invariants().await;
}
