//! `agentling demo`: a server with an agent that has a real tool, run once before your eyes.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use serde_json::json;
use tokio::net::TcpListener;
use url::Url;

use super::serve::{Signals, stop_or_give_up};
use super::transcript::Transcript;
use super::{Running, StartError, Surroundings};
use crate::config::{Config, HostPort};
use crate::domain::agent::{AgentSpec, ContextStrategy};
use crate::domain::budget::Budget;
use crate::domain::event::DeltaKind;
use crate::domain::id::{AgentId, RunId, TenantId};
use crate::domain::model::{ModelSettings, ModelSpec, ProfileOverrides, Provider};
use crate::domain::page::PageRequest;
use crate::domain::run::{OnBusy, OnDisconnect};
use crate::domain::script::{ScriptCall, ScriptTurn};
use crate::domain::step::{InputPart, InputText};
use crate::domain::thread::{Announce, FramingPolicy};
use crate::domain::tool::{EffectClass, HttpMethod, HttpTool, ToolSpec};
use crate::domain::wait::{Approval, OnInDoubt};
use crate::engine::{Seen, StartRun, ThreadChoice, WhichAgent};
use crate::error::AgentlingError;
use crate::http;
use crate::http::serve::{Patience, serve};
use crate::store::agents::{self, AgentRef, Behind};
use crate::store::runs::{self, RunFilter};
use crate::store::{Conflict, Store, StoreError};

const NAME: &str = "demo";
const TASK: &str = "What is the weather in Lisbon? Look it up, then answer in one sentence.";

/// Which model the demo agent thinks with.
#[derive(Debug)]
pub(super) struct DemoModel {
    pub(super) provider: Provider,
    pub(super) base_url: Option<String>,
    pub(super) name: String,
}

/// Serves, shows the demo and goes on serving until a signal comes.
pub(super) async fn run(config: &Config, store: Store, model: DemoModel) -> Result<(), StartError> {
    let mut signals = Signals::listen()?;
    let tool = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let tool_address = tool.local_addr()?;
    let mut config = config.clone();
    config.egress.allow.push(HostPort { host: "127.0.0.1".to_owned(), port: tool_address.port() });
    // Who starts the demo is the operator.
    config.egress.allow.extend(model.base_url.as_deref().and_then(place));
    let around = Surroundings::default();
    let ids = Arc::clone(&around.ids);
    let running = Running::start(&config, store, &around).await?;
    let tasks = running.engine.tasks().clone();
    running.engine.tasks().spawn(async move {
        let stop = async { tasks.stopping().await };
        let patience = Patience {
            grace: Duration::from_secs(1),
            stall: config.streams.stall,
            headers: config.http.header_read,
        };
        let served = serve(tool, http::demo_tool(ids), stop, patience);
        if let Err(error) = served.await {
            tracing::error!(%error, "the demo tool stopped");
        }
    });
    say(&format!("\nagentling serves on http://{}\n", running.address))?;
    tokio::select! {
        shown = show(&running, tool_address, model) => shown?,
        () = signals.next() => {}
    }
    signals.next().await;
    stop_or_give_up(running, signals).await;
    Ok(())
}

/// The host and port of a URL.
fn place(url: &str) -> Option<HostPort> {
    let url = Url::parse(url).ok()?;
    let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']').to_owned();
    Some(HostPort { host, port: url.port_or_known_default()? })
}

async fn show(running: &Running, tool: SocketAddr, model: DemoModel) -> Result<(), StartError> {
    let is_scripted = model.provider == Provider::Scripted;
    let shown = async {
        let id = agent(running, spec(tool, model)).await?;
        let before = last_run(running, id).await?;
        match before {
            Some(run) if is_scripted => Ok(run),
            _ => demonstrate(running, id).await,
        }
    };
    match shown.await {
        Ok(run) => say(&next_steps(running.address, run)),
        Err(error) => say(&format!("\nthe demo did not run: {error}\n")),
    }
}

/// The demo agent, created or brought up to date: its tool has another port at every start.
async fn agent(running: &Running, spec: AgentSpec) -> Result<AgentId, AgentlingError> {
    let (store, tenant) = (&running.store, TenantId::default());
    let around = Surroundings::default();
    let (id, now) = (AgentId::from(around.ids.sortable()), around.clock.now());
    match agents::create(store, &tenant, (id, None), &spec, now).await {
        Ok(agent) => return Ok(agent.id),
        Err(StoreError::Conflict(Conflict::AgentNameTaken)) => {}
        Err(error) => return Err(error.into()),
    }
    let which = AgentRef::Name(NAME.to_owned());
    let seen = agents::get(store, &tenant, &which, None).await?;
    let seen = seen.ok_or(AgentlingError::UnknownAgent)?;
    Ok(agents::add_version(store, &tenant, (&seen, Behind::Newest), &spec, now).await?.id)
}

async fn last_run(running: &Running, agent: AgentId) -> Result<Option<RunId>, AgentlingError> {
    let filter = RunFilter { agent: Some(agent), ..RunFilter::default() };
    let page = PageRequest { limit: 1, after: None };
    let found = runs::list(&running.store, &TenantId::default(), &filter, &page).await?;
    Ok(found.items.first().map(|run| run.id))
}

/// Runs the agent and prints what happens as it happens.
async fn demonstrate(running: &Running, agent: AgentId) -> Result<RunId, AgentlingError> {
    let tenant = TenantId::default();
    let id = RunId::from(Surroundings::default().ids.sortable());
    let start = StartRun {
        id: Some(id),
        agent: WhichAgent::Stored(AgentRef::Id(agent), None),
        thread: ThreadChoice::New,
        input: vec![InputPart::Text(InputText { text: TASK.to_owned() })],
        max_steps: None,
        run_timeout: None,
        on_busy: OnBusy::default(),
        on_disconnect: OnDisconnect::default(),
        budget: Budget::default(),
        key: None,
        metadata: std::collections::BTreeMap::default(),
        idempotency: None,
        webhook: None,
        firing: None,
    };
    // Watched from before it begins, so that nothing of what is said is missed.
    let mut watch = running.engine.watch(&tenant, id);
    let run = running.engine.start(&tenant, start).await?.run;
    let mut transcript = Transcript::default();
    while let Some(seen) = watch.next().await? {
        match seen {
            Seen::Event(told, index) => {
                if let Some((name, data)) = http::shown_event(&told, index) {
                    // A closed standard output is no reason to stop serving.
                    drop(say(&transcript.lines(name, &data)));
                }
            }
            Seen::Delta(delta) if delta.kind == DeltaKind::Text => transcript.hear(&delta.text),
            Seen::Delta(_) | Seen::Snapshot(_) => {}
        }
    }
    Ok(run.id)
}

fn say(text: &str) -> Result<(), StartError> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

fn next_steps(address: SocketAddr, run: RunId) -> String {
    let body = r#"{"agent_id": "demo", "input": "And once more, please."}"#;
    format!(
        "\nTry next:\n\
         \n  # every step of that run, as committed\n\
         \x20 curl -s http://{address}/v1/runs/{run}/steps\n\
         \n  # run the agent again and wait for the answer\n\
         \x20 curl -s http://{address}/v1/runs -H 'Content-Type: application/json' -H 'Prefer: wait=30' -d '{body}'\n\
         \n  # run it and watch the events\n\
         \x20 curl -sN http://{address}/v1/runs/stream -H 'Content-Type: application/json' -d '{body}'\n\
         \nThe API reference: http://{address}/docs\n\
         Ctrl-C stops the server.\n\n"
    )
}

/// The demo agent. The script makes the same two turns that a real model would.
fn spec(tool: SocketAddr, model: DemoModel) -> AgentSpec {
    let script = match model.provider {
        Provider::Scripted => script(),
        _ => Vec::new(),
    };
    AgentSpec {
        name: NAME.to_owned(),
        model: ModelSpec {
            provider: model.provider,
            name: model.name,
            base_url: model.base_url,
            api_key: None,
            profile: ProfileOverrides::default(),
            settings: ModelSettings::default(),
            script,
            fallbacks: Vec::new(),
            price: None,
        },
        instructions: Some(
            "You are a weather assistant. Look things up before you answer.".to_owned(),
        ),
        skills: Vec::new(),
        tools: vec![ToolSpec::Http(weather(tool))],
        output_schema: None,
        max_steps: 6,
        model_timeout_ms: 120_000,
        tool_timeout_ms: 10_000,
        run_timeout_ms: None,
        parallel_tools: true,
        max_tool_output_chars: None,
        redact_errors: false,
        framing_policy: FramingPolicy::default(),
        announce: Announce::default(),
        context_strategy: ContextStrategy::default(),
        redaction: Vec::new(),
        budget: Budget::default(),
        loop_limit: 3,
        output_retries: 2,
        metadata: std::collections::BTreeMap::default(),
    }
}

fn weather(tool: SocketAddr) -> HttpTool {
    HttpTool {
        name: "get_weather".to_owned(),
        description: "The weather in a city right now.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city's name"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}
            },
            "required": ["city"]
        }),
        method: HttpMethod::Get,
        url: format!("http://{tool}/weather/{{city}}"),
        headers: IndexMap::new(),
        effect: EffectClass::Pure,
        timeout_ms: None,
        on_in_doubt: OnInDoubt::Hold,
        hold_timeout_ms: None,
        probe_url: None,
        approval: Approval::NEVER,
        approval_timeout_ms: None,
        parallel_safe: true,
        max_output_chars: None,
        redact: None,
        output_path: None,
    }
}

fn script() -> Vec<ScriptTurn> {
    let call = |name: &str, arguments: serde_json::Value| ScriptCall {
        name: name.to_owned(),
        arguments: arguments.as_object().cloned(),
        raw_arguments: None,
        id: None,
    };
    let lookup = ScriptTurn {
        text: Some("Let me look that up.".to_owned()),
        tool_calls: vec![call("get_weather", json!({"city": "Lisbon"}))],
        chunks: Some(4),
        ..ScriptTurn::default()
    };
    let answer = ScriptTurn {
        tool_calls: vec![call(
            "final_answer",
            json!({"answer": "In Lisbon it is 21 °C and the sky is clear."}),
        )],
        ..ScriptTurn::default()
    };
    vec![lookup, answer]
}
