//! Which tools of servers a run is given, and what they are called.

use std::collections::{BTreeMap, BTreeSet};

use super::vet::is_plain;
use crate::domain::agent::AgentSpec;
use crate::domain::mcp::{
    Listing, McpServerSpec, McpTool, McpUnavailable, PinnedTool, Pins, UnavailableServer,
};
use crate::domain::skill::Skill;
use crate::domain::tool::{RESERVED_NAMES, ToolSpec};
use crate::tools::spec::MAX_TOOLS;

/// What a server has for a run.
pub type Offer = Result<(McpServerSpec, Listing), McpUnavailable>;

/// The tools that a run of an agent is given, from what its servers have.
///
/// A tool keeps its name unless another tool has it, of whatever kind; all of those of servers are then
/// told apart by the names of their servers. What has no name then, or is too many, is left out. Tools that
/// the agent's skills may bring count as well, loaded or not: no server keeps a skill from being loaded.
pub fn pin(agent: &AgentSpec, skills: &[Skill], offers: &BTreeMap<String, Offer>) -> Pins {
    let missing = offers.iter().filter_map(|(name, offer)| {
        let reason = offer.as_ref().err()?.reason();
        Some(UnavailableServer { name: name.clone(), reason })
    });
    let missing = missing.collect();
    let taken: BTreeSet<&str> = agent
        .tools
        .iter()
        .chain(skills.iter().flat_map(|skill| &skill.spec.tools))
        .filter_map(ToolSpec::tool_name)
        .chain(RESERVED_NAMES.iter().copied())
        .collect();
    let selected = selected(agent, offers);
    let mut seen = BTreeMap::<&str, usize>::new();
    for tool in &selected {
        *seen.entry(tool.remote.as_str()).or_default() += 1;
    }
    let is_free = |name: &str| !taken.contains(name) && seen.get(name) == Some(&1);
    let room = MAX_TOOLS.saturating_sub(taken.len().saturating_sub(RESERVED_NAMES.len()));
    let mut names = BTreeSet::new();
    let mut tools = Vec::new();
    for tool in &selected {
        let name = if is_free(&tool.remote) {
            tool.remote.clone()
        } else {
            format!("{}__{}", tool.server, tool.remote)
        };
        let is_usable = is_plain(&name) && !taken.contains(name.as_str()) && tools.len() < room;
        if is_usable && names.insert(name.clone()) {
            tools.push(PinnedTool { name, ..tool.clone() });
        } else {
            tracing::warn!(
                server = tool.server,
                tool = tool.remote,
                "a tool of an MCP server is left out"
            );
        }
    }
    Pins { tools, missing }
}

/// The tools that an agent uses, each once, in the order of the agent and then of the server.
fn selected(agent: &AgentSpec, offers: &BTreeMap<String, Offer>) -> Vec<PinnedTool> {
    let mut selected = Vec::<PinnedTool>::new();
    for tool in &agent.tools {
        let ToolSpec::Mcp(tool) = tool else { continue };
        let Some(Ok((spec, listing))) = offers.get(&tool.server) else { continue };
        for pinned in of_server(tool, spec, listing) {
            let is_it = |known: &PinnedTool| {
                (&known.server, &known.remote) == (&pinned.server, &pinned.remote)
            };
            if !selected.iter().any(is_it) {
                selected.push(pinned);
            }
        }
    }
    selected
}

fn of_server<'a>(
    tool: &'a McpTool,
    spec: &'a McpServerSpec,
    listing: &'a Listing,
) -> impl Iterator<Item = PinnedTool> + 'a {
    let used = move |name: &str| tool.selects(name) && spec.offers(name);
    let listed = listing.tools.iter().filter(move |listed| used(&listed.name));
    listed.map(|listed| PinnedTool {
        name: listed.name.clone(),
        server: tool.server.clone(),
        remote: listed.name.clone(),
        description: listed.description.clone(),
        parameters: listed.parameters.clone(),
        rules: spec.rules_for(&listed.name, &tool.rules),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::id::SkillId;
    use crate::domain::mcp::ListedTool;

    fn agent(tools: &Value) -> AgentSpec {
        let model = json!({"provider": "scripted", "name": "s"});
        serde_json::from_value(json!({"name": "a", "model": model, "tools": tools})).unwrap()
    }

    fn skill(tools: &Value) -> Skill {
        let skill = json!({"name": "s", "description": "d", "instructions": "i", "tools": tools});
        Skill {
            id: SkillId::from(uuid::Uuid::nil()),
            version: 1,
            spec: serde_json::from_value(skill).unwrap(),
            created_at: chrono::DateTime::UNIX_EPOCH,
            updated_at: chrono::DateTime::UNIX_EPOCH,
            archived_at: None,
        }
    }

    fn offer(server: &str, more: &Value, tools: &[&str]) -> (String, Offer) {
        let mut spec = json!({"name": server, "url": "https://s.example/mcp"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let spec: McpServerSpec = serde_json::from_value(spec).unwrap();
        let tools = tools.iter().map(|name| ListedTool {
            name: (*name).to_owned(),
            description: String::new(),
            parameters: json!({"type": "object"}),
        });
        (server.to_owned(), Ok((spec, Listing { tools: tools.collect(), ..Listing::default() })))
    }

    fn names(pins: &Pins) -> Vec<&str> {
        pins.tools.iter().map(|tool| tool.name.as_str()).collect()
    }

    #[test]
    fn a_name_that_is_taken_is_told_apart_by_its_server() {
        let agent = agent(&json!([
            {"kind": "client", "name": "open", "parameters": {"type": "object"}},
            {"kind": "mcp", "server": "one"},
            {"kind": "mcp", "server": "two"},
        ]));
        let offers = BTreeMap::from([
            offer("one", &json!({}), &["open", "look", "only"]),
            offer("two", &json!({}), &["look", "final_answer"]),
        ]);
        let expected = ["one__open", "one__look", "only", "two__look", "two__final_answer"];
        assert_eq!(names(&pin(&agent, &[], &offers)), expected);
    }

    #[test]
    fn a_tool_of_a_skill_keeps_its_name_whatever_a_server_calls_its_own() {
        let agent = agent(&json!([{"kind": "mcp", "server": "one"}]));
        let skill: Skill = skill(&json!([
            {"kind": "client", "name": "reef", "parameters": {"type": "object"}},
        ]));
        let offers = BTreeMap::from([offer("one", &json!({}), &["reef", "look"])]);
        assert_eq!(names(&pin(&agent, &[skill], &offers)), ["one__reef", "look"]);
    }

    #[test]
    fn only_what_the_agent_selects_and_the_server_offers_is_given() {
        let agent = agent(&json!([
            {"kind": "mcp", "server": "one", "tools": ["a", "b", "missing"]},
            {"kind": "mcp", "server": "one", "tools": ["b", "c"]},
        ]));
        let offers = BTreeMap::from([offer("one", &json!({"deny": ["a"]}), &["a", "b", "c", "d"])]);
        assert_eq!(names(&pin(&agent, &[], &offers)), ["b", "c"]);
    }

    #[test]
    fn a_server_that_cannot_be_asked_is_noted_and_the_others_are_used() {
        let agent =
            agent(&json!([{"kind": "mcp", "server": "gone"}, {"kind": "mcp", "server": "one"}]));
        let gone = ("gone".to_owned(), Err(McpUnavailable::Unknown));
        let pins = pin(&agent, &[], &BTreeMap::from([gone, offer("one", &json!({}), &["a"])]));
        assert_eq!((names(&pins), pins.missing.len()), (vec!["a"], 1));
        let missing = serde_json::to_value(&pins.missing[0]).unwrap();
        assert_eq!(missing, json!({"name": "gone", "reason": "unknown"}));
    }

    #[test]
    fn a_run_has_at_most_as_many_tools_as_an_agent_may() {
        let many: Vec<String> = (0..200).map(|n| format!("t{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let agent = agent(&json!([
            {"kind": "client", "name": "open", "parameters": {"type": "object"}},
            {"kind": "mcp", "server": "one"},
        ]));
        let pins = pin(&agent, &[], &BTreeMap::from([offer("one", &json!({}), &many)]));
        assert_eq!(pins.tools.len(), MAX_TOOLS - 1);
    }
}
