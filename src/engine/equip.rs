//! Gives a run the tools of MCP servers, once: they are asked before the run's first request, and what
//! they say is kept with the run. Whoever has the run later, and whoever replays it, finds the same.
//!
//! A server that cannot be asked costs the run its tools and nothing else: nothing that a tool does
//! fails a run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Context;
use super::journal::{Journal, Stamp};
use super::leases::Signals;
use crate::domain::agent::AgentSpec;
use crate::domain::id::TenantId;
use crate::domain::mcp::{PinnedTool, Pins, UnavailableReason, UnavailableServer};
use crate::domain::skill::Skill;
use crate::domain::step::ToolsStep;
use crate::domain::tool::ToolSpec;
use crate::store::journal::{self, Appended, Guard, LoadedRun};
use crate::store::lease::Claim;
use crate::store::{StoreError, pins};
use crate::tools::mcp::pin;

/// How long all servers together may be asked. Each has a bound of its own, which is less.
const ASKING: Duration = Duration::from_mins(1);

/// Loads a claimed run and gives it the tools of its servers where it has none yet. `None` when it is
/// gone, or another's.
///
/// # Errors
/// When the database does not answer.
pub(super) async fn load(
    context: &Arc<Context>,
    claim: &Claim,
    signals: &watch::Receiver<Signals>,
) -> Result<Option<LoadedRun>, StoreError> {
    let loaded = journal::load(context.store(), &claim.tenant, claim.run).await?;
    let Some(loaded) = loaded else { return Ok(None) };
    let is_over = claim.is_poisoned || loaded.time_left.is_some_and(|left| left.is_zero());
    if loaded.pins.is_some() || is_over || !uses_servers(&loaded.agent) {
        return Ok(Some(loaded));
    }
    let Some(pins) = ask(context, claim, &loaded, signals).await else { return Ok(Some(loaded)) };
    let change = change(context, claim, &loaded, &pins).await?;
    match write(context, claim, &loaded, (pins, change)).await? {
        Appended::Fenced => {
            context.fenced(claim).await;
            Ok(None)
        }
        // What keeps it from being written keeps the run from asking its model as well.
        _ => journal::load(context.store(), &claim.tenant, claim.run).await,
    }
}

/// Whether an agent uses tools of MCP servers.
pub(super) fn uses_servers(agent: &AgentSpec) -> bool {
    agent.tools.iter().any(|tool| matches!(tool, ToolSpec::Mcp(_)))
}

/// The tools that a run would be given now.
pub(super) async fn offered(
    context: &Context,
    tenant: &TenantId,
    (agent, skills): (&AgentSpec, &[Skill]),
) -> Pins {
    if !uses_servers(agent) {
        return Pins::default();
    }
    pin(agent, skills, &context.parts.toolbox.offers(tenant, agent).await)
}

/// Asks the servers; `None` when the run is to stop, or this server is, before they have answered.
async fn ask(
    context: &Context,
    claim: &Claim,
    loaded: &LoadedRun,
    signals: &watch::Receiver<Signals>,
) -> Option<Pins> {
    let mut signals = signals.clone();
    let told_to_stop = async {
        // A sender that is gone has nothing more to say.
        if signals.wait_for(|signals| *signals != Signals::default()).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let bound = loaded.time_left.unwrap_or(ASKING).min(ASKING);
    let equipped = (&loaded.agent, loaded.skills.as_slice());
    let asked = tokio::time::timeout(bound, offered(context, &claim.tenant, equipped));
    let pins = tokio::select! {
        asked = Box::pin(asked) => asked.unwrap_or_else(|_| without(&loaded.agent)),
        () = told_to_stop => return None,
        () = context.tasks.stopping() => return None,
    };
    for UnavailableServer { name, reason } in &pins.missing {
        tracing::warn!(run = %claim.run, server = name, %reason, "a run goes on without the tools of an MCP server");
    }
    Some(pins)
}

/// What a run is given whose servers take too long together.
fn without(agent: &AgentSpec) -> Pins {
    let mut names = BTreeSet::new();
    for tool in &agent.tools {
        if let ToolSpec::Mcp(tool) = tool {
            names.insert(tool.server.clone());
        }
    }
    let reason = UnavailableReason::NotAnswering;
    let missing = names.into_iter().map(|name| UnavailableServer { name, reason });
    Pins { tools: Vec::new(), missing: missing.collect() }
}

/// How the tools differ from those of the run before, where the model has read of that one.
async fn change(
    context: &Context,
    claim: &Claim,
    loaded: &LoadedRun,
    now: &Pins,
) -> Result<Option<ToolsStep>, StoreError> {
    let is_continued = loaded.steps.first().is_some_and(|step| step.run_id != Some(loaded.run.id));
    if !is_continued {
        return Ok(None);
    }
    let before = pins::last_on(context.store(), &claim.tenant, loaded.run.thread_id).await?;
    Ok(before.and_then(|before| difference(&before, now, &loaded.agent)))
}

fn difference(before: &Pins, now: &Pins, agent: &AgentSpec) -> Option<ToolsStep> {
    let names = |pins: &Pins| -> BTreeSet<String> {
        pins.tools.iter().map(|tool| tool.name.clone()).collect()
    };
    let (old, new) = (names(before), names(now));
    let is_declared = |name: &str| agent.tools.iter().any(|tool| tool.tool_name() == Some(name));
    let in_order = |pins: &Pins, known: &BTreeSet<String>| -> Vec<String> {
        let is_new = |tool: &&PinnedTool| !known.contains(&tool.name);
        pins.tools.iter().filter(is_new).map(|tool| tool.name.clone()).collect()
    };
    let added = in_order(now, &old);
    let mut removed = in_order(before, &new);
    removed.retain(|name| !is_declared(name));
    let is_change = !added.is_empty() || !removed.is_empty();
    is_change.then_some(ToolsStep { added, removed })
}

/// Keeps the tools with the run, and says in its history how they changed, in one commit.
async fn write(
    context: &Context,
    claim: &Claim,
    loaded: &LoadedRun,
    (pins, change): (Pins, Option<ToolsStep>),
) -> Result<Appended, StoreError> {
    let parts = &context.parts;
    let (now, ids) = (parts.clock.now(), parts.ids.as_ref());
    let stamp = Stamp { now, ids, heard: None, sent: &[] };
    let journal = Journal::of(loaded);
    let mut batch = journal.equip(pins, change, &stamp);
    // Nothing of a budget is asked for.
    batch.draws.is_budgeted = true;
    let guard = Guard {
        tenant: claim.tenant.clone(),
        run: claim.run,
        token: claim.token,
        epoch: claim.epoch,
        head: journal.head,
    };
    Box::pin(journal::append(context.store(), &guard, &batch)).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pins(names: &[&str]) -> Pins {
        let tool = |name: &&str| {
            json!({"name": name, "server": "s", "remote": name, "description": "",
                   "parameters": {"type": "object"}})
        };
        let tools: Vec<_> = names.iter().map(tool).collect();
        serde_json::from_value(json!({"tools": tools})).unwrap()
    }

    #[test]
    fn only_what_came_or_went_is_announced() {
        let agent: AgentSpec = serde_json::from_value(json!({
            "name": "a", "model": {"provider": "scripted", "name": "s"},
            "tools": [{"kind": "client", "name": "own", "parameters": {"type": "object"}}],
        }))
        .unwrap();
        let found = difference(&pins(&["b", "own", "x"]), &pins(&["x", "c", "a"]), &agent).unwrap();
        assert_eq!((found.added, found.removed), (vec!["c".into(), "a".into()], vec!["b".into()]));
        assert_eq!(difference(&pins(&["a", "b"]), &pins(&["b", "a"]), &agent), None);
    }
}
