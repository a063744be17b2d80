//! The sender against the replay server of recorded traffic, and requests against recorded ones.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::judge::{Reading, differences};
use super::server::{ask, call, models};
use super::shared::{Exchange, exchanges_of, path};
use crate::domain::id::CallId;
use crate::domain::ledger::Origin;
use crate::domain::model::{ModelErrorKind as Kind, ModelSettings};
use crate::domain::provider::Wire;
use crate::domain::tool::ToolDefinition;
use crate::provider::ProviderKeys;
use crate::wire::{self, Block, Profile, Prompt, PromptTurn, Role};

/// The replay server, ended with the test.
struct Mock {
    child: Child,
    url: String,
}

impl Drop for Mock {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Mock {
    /// Starts it; `None`, said plainly, without Python or the shared folder.
    #[expect(clippy::print_stderr, reason = "a test that checks nothing must say so")]
    fn start() -> Option<Self> {
        let program = path("tools/mock_provider.py")?;
        let spawned = Command::new("python3")
            .arg(program)
            .arg("--fixtures")
            .arg(path("data/providers")?)
            .args(["--port", "0"])
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = spawned else {
            eprintln!("skipped: there is no python3");
            return None;
        };
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        Some(Self { child, url: told["listening"].as_str().unwrap().to_owned() })
    }
}

/// The path prefix that asks the replay server to misbehave.
fn chaos_prefix(chaos: &str) -> String {
    let coded = chaos.replace('%', "%25").replace('=', "%3D").replace(';', "%3B");
    if coded.is_empty() { String::new() } else { format!("/c/{coded}") }
}

#[tokio::test]
async fn providers_replayed_over_a_socket_are_read_as_expected() {
    let Some(mock) = Mock::start() else { return };
    let models = models(ProviderKeys::default());
    let all = exchanges_of(Wire::OpenaiChat);
    for exchange in all.iter().filter(|exchange| exchange.provider == "openai") {
        for chaos in ["", "split=7", "split=rand:3;crlf=1;comments=1", "gzip=1", "nodone=1"] {
            let prefix = chaos_prefix(chaos);
            let mut call = call(&format!("{}/f/{}{prefix}/v1", mock.url, exchange.id));
            call.prompt.settings.stream = Some(exchange.stream);
            let (answer, _) = ask(&models, &call).await;
            let reading =
                answer.outcome.map_or_else(Reading::of_error, |reply| Reading::of_reply(&reply));
            let found = differences(&exchange.expected, &reading);
            assert!(found.is_empty(), "{} {chaos}: {found:?}", exchange.id);
        }
    }
}

#[tokio::test]
async fn providers_that_misbehave_end_in_an_error_of_the_right_kind() {
    let Some(mock) = Mock::start() else { return };
    let models = models(ProviderKeys::default());
    let fixture = "openai-chat-019-stream-tool-followup";
    for (chaos, kind) in [
        ("cut=0", Kind::Transport),
        ("cut=50%", Kind::Transport),
        ("cut=50%;clean=1", Kind::TruncatedStream),
        ("garbage=html", Kind::Protocol),
        ("garbage=json", Kind::Protocol),
        ("garbage=empty", Kind::Protocol),
        // A server that answered of late is asked twice, once over a fresh connection.
        ("fail=dropx9", Kind::Transport),
        ("fail=529x9", Kind::Overloaded),
        ("errorevent=50%:rate", Kind::RateLimit),
        ("errorevent=1%:overloaded", Kind::Overloaded),
    ] {
        let call = call(&format!("{}/f/{fixture}{}/v1", mock.url, chaos_prefix(chaos)));
        let error = ask(&models, &call).await.0.outcome.unwrap_err();
        assert_eq!((error.kind, error.retryable), (kind, true), "{chaos}");
    }
}

fn prompt(exchange: &Exchange, turns: Vec<PromptTurn>, tools: Vec<ToolDefinition>) -> Prompt {
    let model = exchange.request["body"]["model"].as_str().unwrap().to_owned();
    Prompt {
        model,
        system: None,
        turns,
        tools,
        settings: ModelSettings::default(),
        ..Prompt::default()
    }
}

fn user(text: &str) -> PromptTurn {
    PromptTurn { role: Role::User, blocks: vec![Block::Text(text.into())] }
}

fn called(id: &str, name: &str, arguments: &str) -> PromptTurn {
    let call_id = CallId(id.to_owned());
    let (id, name, arguments) = (id.to_owned(), name.to_owned(), arguments.to_owned());
    let call =
        Block::ToolCall { id, call_id, name, arguments, echo: None, origin: Origin::default() };
    PromptTurn { role: Role::Assistant, blocks: vec![call] }
}

fn answered(id: &str, name: &str, text: &str) -> PromptTurn {
    let call_id = CallId(id.to_owned());
    let (id, name, text) = (id.to_owned(), name.to_owned(), text.into());
    let result = Block::ToolResult { id, call_id, name, text, is_error: false };
    PromptTurn { role: Role::Tool, blocks: vec![result] }
}

/// The recorded tools as definitions. `strict` is OpenAI's own and is not sent.
fn tools(exchange: &Exchange) -> Vec<ToolDefinition> {
    let tools = exchange.request["body"]["tools"].as_array().cloned().unwrap_or_default();
    let tools = tools.iter().map(|tool| &tool["function"]);
    tools
        .map(|function| ToolDefinition {
            name: function["name"].as_str().unwrap().to_owned(),
            description: function["description"].as_str().unwrap().to_owned(),
            parameters: function["parameters"].clone(),
        })
        .collect()
}

/// The recorded body, less what no prompt of ours says.
fn recorded(exchange: &Exchange) -> Value {
    let mut body = exchange.request["body"].clone();
    for tool in body.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
        tool["function"].as_object_mut().unwrap().remove("strict");
    }
    body
}

#[test]
fn requests_to_providers_say_what_the_recorded_ones_say() {
    let all = exchanges_of(Wire::OpenaiChat);
    let find = |id: &str| all.iter().find(|exchange| exchange.id == id);
    let written = |exchange: &Exchange, prompt: &Prompt| -> Value {
        // The profile of OpenAI itself, which is what the recorded requests went to.
        let mut spec = call("").spec;
        spec.base_url = None;
        let profile = Profile::resolve(&spec);
        let body = wire::encode(spec.provider, prompt, &profile, exchange.stream);
        serde_json::from_slice(&body.body).unwrap()
    };
    if let Some(exchange) = find("openai-chat-012-stop-sequences-plain") {
        let said = exchange.request["body"]["messages"][0]["content"].as_str().unwrap();
        let mut prompt = prompt(exchange, vec![user(said)], vec![]);
        prompt.settings.stop = vec!["Paris".to_owned()];
        assert_eq!(written(exchange, &prompt), recorded(exchange));
    }
    if let Some(exchange) = find("openai-chat-018-tool-call") {
        let turns = vec![user("What's the weather in Paris?")];
        let mut prompt = prompt(exchange, turns, tools(exchange));
        prompt.settings.tool_choice = Some("get_weather".to_owned());
        assert_eq!(written(exchange, &prompt), recorded(exchange));
    }
    if let Some(exchange) = find("openai-chat-014-tool-error-followup-tool-followup") {
        let (name, first) = ("get_weather_in_city", "call_fFAB8MNL3tUdfNIIdsIJTo0H");
        let second = "call_hLYHO5lK5lmiukTZv6VQzz3x";
        let hint = "Did you mean Mexico City?\n\nFix the errors and try again.";
        let turns = vec![
            user("What is the weather in CDMX?"),
            called(first, name, "{\"city\":\"CDMX\"}"),
            answered(first, name, hint),
            called(second, name, "{\"city\":\"Mexico City\"}"),
            answered(second, name, "sunny"),
        ];
        let mut prompt = prompt(exchange, turns, tools(exchange));
        prompt.settings.tool_choice = Some("auto".to_owned());
        assert_eq!(written(exchange, &prompt), recorded(exchange));
    }
    if let Some(exchange) = find("openai-chat-042-stream-tool-call") {
        let turns = vec![user("What's the weather like in San Francisco?")];
        let mut wanted = recorded(exchange);
        wanted["stream_options"] = json!({"include_usage": true});
        assert_eq!(written(exchange, &prompt(exchange, turns, tools(exchange))), wanted);
    }
}
