//! Where a secret could come out, and the search through all of it. A new way out is a line in
//! [`Sinks::collect`].

use std::collections::BTreeSet;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::caller::Caller;
use super::world::World;
use crate::support::picture_everything;

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
        let prompts = world.models.iter().flat_map(|model| model.requests());
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
        let forms: BTreeSet<String> = needles.iter().flat_map(|needle| forms(needle)).collect();
        let found = |(name, text): &(&'static str, String)| {
            let at = forms.iter().find_map(|form| text.find(form.as_str()))?;
            let (from, to) = (text.floor_char_boundary(at.saturating_sub(160)), at + 240);
            let to = text.ceil_char_boundary(to.min(text.len()));
            Some((*name, text[from..to].to_owned()))
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
        encoded[4..encoded.len() - 4].to_owned()
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
    let list = async |path: &str| -> Vec<Value> {
        let page = caller.get(&format!("{path}?limit=200")).await.expect(200);
        page["items"].as_array().cloned().unwrap_or_default()
    };
    for path in ["agents", "skills", "secrets", "mcp-servers", "schedules"] {
        list(&format!("/v1/{path}")).await;
    }
    for webhook in list("/v1/webhooks").await {
        list(&format!("/v1/webhooks/{}/deliveries", text(&webhook["id"]))).await;
    }
    let mut read = Read { ledger: String::new(), exports: String::new() };
    for run in list("/v1/runs").await {
        let path = format!("/v1/runs/{}", text(&run["id"]));
        for what in ["", "/steps", "/events"] {
            caller.get(&format!("{path}{what}")).await.expect(200);
        }
        for request in list(&format!("{path}/requests")).await {
            for what in ["", "/body", "/response", "/spans"] {
                let path = format!("/v1/requests/{}{what}", text(&request["id"]));
                read.ledger.push_str(&caller.get(&path).await.text);
            }
        }
    }
    for thread in list("/v1/threads").await {
        let path = format!("/v1/threads/{}", text(&thread["id"]));
        for what in ["", "/steps", "/diagnosis"] {
            caller.get(&format!("{path}{what}")).await.expect(200);
        }
        for version in ["?version=2", "?version=1&lossy=true"] {
            read.exports.push_str(&caller.get(&format!("{path}/memory{version}")).await.text);
        }
    }
    read
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
