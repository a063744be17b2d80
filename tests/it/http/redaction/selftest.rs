//! `POST /v1/redaction/selftest`.

use std::sync::Arc;

use agentling::app::Surroundings;
use agentling::engine::redaction::Redactor;
use agentling::http::LogLines;
use serde_json::{Value, json};

use crate::support::{FakeTools, TestApp, TestDb, picture_everything};

/// The ways out that are searched.
const SINKS: [&str; 9] = [
    "log",
    "problem",
    "export",
    "webhook",
    "model_request",
    "observation",
    "stream",
    "step",
    "trace",
];

/// A log whose scrubber is missing.
#[derive(Debug)]
struct Leaking;

impl LogLines for Leaking {
    fn line(&self, _: Redactor, text: &str) -> String {
        format!("ERROR {text}")
    }
}

async fn tested(app: &TestApp) -> (bool, Vec<Value>) {
    let report = app.post("/v1/redaction/selftest", &json!({})).await.expect(200);
    (report["passed"] == true, report["sinks"].as_array().unwrap().clone())
}

#[tokio::test]
async fn every_way_out_withholds_what_is_sent_down_it_and_nothing_is_stored() {
    let app = TestApp::with(&[("OPENAI_API_KEY", "sk-of-the-operator-0123456789")]).await;
    let before = picture_everything(&app.db).await;
    let (passed, sinks) = tested(&app).await;
    assert!(passed, "{sinks:#?}");
    let names: Vec<&str> = sinks.iter().map(|sink| sink["name"].as_str().unwrap()).collect();
    assert_eq!(names, SINKS);
    for sink in &sinks {
        assert_eq!((&sink["passed"], &sink["leaked"]), (&json!(true), &json!([])), "{sink}");
        let searched = sink["searched"].as_array().unwrap();
        let says_what_went_wrong = ["log", "problem", "observation", "trace"];
        let is_searched_for_shapes = says_what_went_wrong.contains(&sink["name"].as_str().unwrap());
        assert_eq!(searched.len(), if is_searched_for_shapes { 11 } else { 4 }, "{sink}");
    }
    assert_eq!(picture_everything(&app.db).await, before);
}

#[tokio::test]
async fn a_way_out_that_has_lost_its_scrubber_is_found() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let around = Surroundings { log: Arc::new(Leaking), ..Surroundings::default() };
    let app = TestApp::on(db, tools, &[], around).await;
    let (passed, sinks) = tested(&app).await;
    assert!(!passed);
    for sink in &sinks {
        let leaks = sink["name"] == "log";
        assert_eq!(sink["passed"], !leaks, "{sink}");
        let expected = if leaks { sink["searched"].clone() } else { json!([]) };
        assert_eq!(sink["leaked"], expected, "{sink}");
    }
}
