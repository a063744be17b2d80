//! Secrets come out nowhere: twelve of them, every way in which something goes wrong, every way out.
//!
//! The program runs as an operator runs it, at its loudest, on a database that logs every statement with
//! its values. A secret that may be somewhere stands in [`ALLOWED`] with its reason; an entry that is no
//! longer true fails.

mod caller;
mod peers;
mod program;
mod sinks;
mod walk;
mod world;

use std::collections::BTreeSet;

use sinks::Sinks;
use world::World;

use crate::support::assert_invariants;

/// Where a secret may be, and why.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("api key", "commands", "`keys create` shows a key once to whoever made it"),
    ("environment variable", "commands", "a setting that does not fit is shown as it was given"),
    ("webhook secret", "answers", "making and rotating show it once to whoever asked"),
    ("tool exception", "log", "what is withheld from the model is told to the operator, once"),
    ("another tenant's prompt", "answers of the other tenant", "it is theirs"),
    ("another tenant's prompt", "rows", "histories are what is stored"),
    ("another tenant's prompt", "dump", "histories are what is stored"),
    ("another tenant's prompt", "traces", "the operator asked for content"),
    ("another tenant's prompt", "database log", "it was told to log every value"),
];

/// Ways out on which no text of anybody's is, each with what is found there instead.
const TEXTLESS: &[(&str, &str)] = &[("metrics", "agentling_runs_accepted_total")];

/// The secrets by name, each with the texts that give it away.
fn canaries(world: &World) -> Vec<(&'static str, Vec<String>)> {
    let one = |text: &str| vec![text.to_owned()];
    vec![
        ("api key", world.keys.clone()),
        ("provider key", one(world::PROVIDER_KEY)),
        ("tool header", one(world::TOOL_HEADER)),
        ("webhook secret", world.hook_secrets.clone()),
        ("database password", one(world::DSN_PASSWORD)),
        ("bearer of a caller", world::JWT.split('.').skip(1).map(str::to_owned).collect()),
        ("tool exception", one(world::EXCEPTION)),
        ("key in a query", one(world::URL_KEY)),
        ("MCP token", one(world::MCP_TOKEN)),
        ("key of secrets", vec![world::KEK.to_owned(), "canary-iK3wT8fN".to_owned()]),
        ("another tenant's prompt", one(world::OTHERS_PROMPT)),
        ("environment variable", one(world::VARIABLE)),
    ]
}

/// What must have been answered on the way, so that the walk is known to have gone there.
const MET: &[&str] = &[
    "/problems/unauthenticated",
    "/problems/insufficient-scope",
    "/problems/malformed-json",
    "/problems/not-found",
    "/problems/method-not-allowed",
    "/problems/text-not-storable",
    "/problems/unknown-field",
    "/problems/model-error",
    "/problems/tool-call-error",
    "/problems/internal",
    "/problems/database-unavailable",
    "/problems/run-poisoned",
    "in_doubt",
    "[redacted:secret:tool]",
    "[redacted:secret:mcp]",
    "\"kind\":\"auth\"",
    "ConnectError",
    "ResponseTooLarge",
    "/problems/egress-denied",
    "\"redacted\":true",
];

#[tokio::test]
async fn no_secret_comes_out_anywhere_whatever_goes_wrong() {
    let mut world = World::start().await;
    walk::requests(&world).await;
    world.keep_secrets().await;
    tokio::join!(
        walk::tenants(&world),
        walk::models(&world),
        walk::tools(&world),
        walk::mcp(&world),
        walk::settings(&world),
    );
    walk::webhooks(&mut world).await;
    walk::database(&world).await;
    walk::restarts(&mut world).await;
    let sinks = Sinks::collect(&world).await;
    let server = world.server.take().expect("it runs");
    assert!(server.end(rustix::process::Signal::TERM).await.success());
    assert_invariants(&world.cluster.db()).await;

    let controls: BTreeSet<_> =
        sinks.holding(&[world::CONTROL.to_owned()]).into_iter().map(|(sink, _)| sink).collect();
    let textless = TEXTLESS.iter().filter(|(sink, text)| {
        sinks.holding(&[(*text).to_owned()]).iter().any(|(found, _)| found == sink)
    });
    let textless: BTreeSet<_> = textless.map(|(sink, _)| *sink).collect();
    assert!(controls.is_disjoint(&textless), "{textless:?} hold texts");
    let controls = &controls | &textless;
    let unsearched: Vec<_> = sinks.names().filter(|name| !controls.contains(name)).collect();
    assert_eq!(unsearched, Vec::<&str>::new(), "the search would find nothing there");
    for text in MET {
        assert!(
            !sinks.holding(&[(*text).to_owned()]).is_empty(),
            "nothing was answered with {text}"
        );
    }

    let found = canaries(&world).into_iter().flat_map(|(canary, needles)| {
        assert!(!needles.is_empty(), "{canary}");
        sinks.holding(&needles).into_iter().map(move |(sink, around)| (canary, sink, around))
    });
    let is_allowed = |canary, sink| ALLOWED.iter().any(|it| (it.0, it.1) == (canary, sink));
    let (seen, leaks): (Vec<_>, Vec<_>) =
        found.partition(|(canary, sink, _)| is_allowed(canary, sink));
    let leaks: Vec<_> = leaks
        .iter()
        .map(|(canary, sink, around)| format!("{canary} in {sink}: …{around}…"))
        .collect();
    assert!(leaks.is_empty(), "{}", leaks.join("\n\n"));
    let seen: BTreeSet<_> = seen.iter().map(|(canary, sink, _)| (*canary, *sink)).collect();
    let stale = ALLOWED.iter().filter(|(canary, sink, _)| !seen.contains(&(*canary, *sink)));
    assert_eq!(stale.collect::<Vec<_>>(), Vec::<&(&str, &str, &str)>::new(), "no longer true");
}
