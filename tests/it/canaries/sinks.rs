//! Where a secret could come out, and the search through all of it. A new way out is a line in
//! [`Sinks::collect`].

use std::collections::BTreeSet;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::caller::Caller;
use super::world::World;
use crate::support::{FakeModel, picture_everything};

/// Every text that came out, by way.
pub(super) struct Sinks(Vec<(&'static str, String)>);

impl Sinks {
    /// Collects them. What callers read is read here, so that nothing of it is missed.
    pub(super) async fn collect(world: &World) -> Self {
        let (a, b) = (world.a(), world.b());
        let ledger = read_all(&a).await;
        read_all(&b).await;
        let db = world.cluster.db();
        let webhooks = world.tools.seen().into_iter().filter(|seen| seen.tool == "hook");
        let metrics = a.send(a.bare("GET", "/metrics")).await.text;
        // Spans wait for others before they are sent, and this one comes behind all others.
        world.collector.named("GET /metrics").await;
        let prompts = world.models.iter().flat_map(FakeModel::requests);
        Self(vec![
            ("log", world.sayings.all("server")),
            ("commands", world.sayings.all("command")),
            ("answers", a.answers() + &world.reader().answers()),
            ("streams", a.streams()),
            ("ledger", ledger.ledger),
            ("exports", ledger.exports),
            ("answers of the other tenant", b.answers() + &b.streams()),
            ("rows", picture_everything(&db).await),
            ("dump", dump(&db.url)),
            ("database log", world.cluster.log()),
            ("webhooks", webhooks.map(|seen| seen.text).collect()),
            ("metrics", metrics),
            ("traces", world.collector.text()),
            ("prompts", prompts.map(|request| request.body).collect()),
        ])
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(name, _)| *name)
    }

    /// Where any of some texts is, in any form, each with what stands around it.
    pub(super) fn holding(&self, needles: &[String]) -> Vec<(&'static str, String)> {
        let forms: BTreeSet<String> = needles.iter().map(String::as_str).flat_map(forms).collect();
        let found = |(name, text): &(&'static str, String)| {
            let at = forms.iter().find_map(|form| text.find(form.as_str()))?;
            let (from, to) = (text.floor_char_boundary(at.saturating_sub(160)), at + 240);
            let to = text.ceil_char_boundary(to.min(text.len()));
            Some((*name, text.get(from..to).expect("between letters").to_owned()))
        };
        self.0.iter().filter_map(found).collect()
    }
}

/// A value as it is, as Postgres shows bytes, and in base64 at each of its three places.
fn forms(value: &str) -> Vec<String> {
    let hex = value.bytes().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    let shifted = ["", "a", "ab"].map(|before| {
        let encoded = STANDARD.encode(format!("{before}{value}"));
        // The letters at the ends say something of what stands beside the value.
        encoded.get(4..encoded.len() - 4).expect("it is long").to_owned()
    });
    [vec![value.to_owned(), hex], shifted.to_vec()].concat()
}

/// The database as a backup has it.
fn dump(url: &str) -> String {
    let dumped = Command::new("pg_dump").arg("--dbname").arg(url).output();
    let dumped = dumped.expect("pg_dump is installed with PostgreSQL");
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    String::from_utf8_lossy(&dumped.stdout).into_owned()
}

struct Read {
    ledger: String,
    exports: String,
}

/// Everything of a tenant's that its callers can read.
async fn read_all(caller: &Caller) -> Read {
    for path in ["agents", "skills", "secrets", "mcp-servers", "schedules"] {
        list(caller, &format!("/v1/{path}")).await;
    }
    for webhook in list(caller, "/v1/webhooks").await {
        list(caller, &format!("/v1/webhooks/{webhook}/deliveries")).await;
    }
    Read { ledger: read_runs(caller).await, exports: read_threads(caller).await }
}

/// The ids of what is listed.
async fn list(caller: &Caller, path: &str) -> Vec<String> {
    let page = caller.get(&format!("{path}?limit=200")).await.expect(200);
    let items = page.get("items").and_then(Value::as_array).into_iter().flatten();
    items
        .map(|item| item.get("id").and_then(Value::as_str).unwrap_or_default().to_owned())
        .collect()
}

/// Reads the runs, and answers what the ledger says of them.
async fn read_runs(caller: &Caller) -> String {
    let mut ledger = String::new();
    for run in list(caller, "/v1/runs").await {
        for what in ["", "/steps", "/events"] {
            caller.get(&format!("/v1/runs/{run}{what}")).await.expect(200);
        }
        for request in list(caller, &format!("/v1/runs/{run}/requests")).await {
            for what in ["", "/body", "/response", "/spans"] {
                let path = format!("/v1/requests/{request}{what}");
                ledger.push_str(&caller.get(&path).await.text);
            }
        }
    }
    ledger
}

/// Reads the threads, and answers what is exported of them.
async fn read_threads(caller: &Caller) -> String {
    let mut exports = String::new();
    for thread in list(caller, "/v1/threads").await {
        for what in ["", "/steps", "/diagnosis"] {
            caller.get(&format!("/v1/threads/{thread}{what}")).await.expect(200);
        }
        for version in ["?version=2", "?version=1&lossy=true"] {
            let path = format!("/v1/threads/{thread}/memory{version}");
            exports.push_str(&caller.get(&path).await.text);
        }
    }
    exports
}
