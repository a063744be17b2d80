//! A process whose log nobody reads.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::replica::Replica;
use crate::support::{FakeTools, TestDb, agent_with, assert_invariants, saying};

/// Waits until lines of the log have been dropped.
async fn dropped(replica: &Replica) {
    let none = "agentling_log_lines_dropped_total 0\n";
    loop {
        let metrics = replica.get("/metrics").send().await.unwrap().text().await.unwrap();
        assert!(metrics.contains("agentling_log_lines_dropped_total "), "{metrics}");
        if !metrics.contains(none) {
            return;
        }
    }
}

#[tokio::test]
async fn f79_a_process_whose_log_nobody_reads_goes_on_counts_what_it_drops_and_ends() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let replica = Replica::unread(&db, &tools, &[("AGENTLING_LOG", "trace")]).await;
    let counted = tokio::time::timeout(Duration::from_mins(1), dropped(&replica)).await;
    counted.expect("what is dropped is counted");
    let body = json!({"agent": agent_with(&[saying("Done.")], &[]), "input": "go"});
    let run = replica.post("/v1/runs", &body).header("prefer", "wait=60").send().await.unwrap();
    let run: Value = serde_json::from_str(&run.text().await.unwrap()).unwrap();
    assert_eq!(run["status"], "completed", "{run}");
    replica.signal(Signal::TERM);
    assert_eq!(replica.code().await, Some(0));
    assert_invariants(&db).await;
}
