//! Formats of runs: which versions of the server can go on with one.
//!
//! While servers are replaced one by one, those of the version before go on claiming. A run that they could
//! not read has a newer format than they know, and they leave it alone.

use super::agent::AgentSpec;
use super::budget::Budget;
use super::model::{ModelSettings, ModelSpec, ProfileOverrides};
use super::secret::HeaderSource;
use super::tool::{BuiltinTool, ClientTool, HttpTool, ToolSpec};
use super::wait::Approval;

/// What a server has to know to go on with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunFormat {
    /// What every version knows.
    First,
    /// Sub-runs and runs that have some, tools of every kind, skills, secrets and conditions of approval.
    Family,
}

impl RunFormat {
    /// The newest that this version knows.
    pub const NEWEST: Self = Self::Family;

    /// As it is stored.
    pub const fn number(self) -> i16 {
        match self {
            Self::First => 1,
            Self::Family => 2,
        }
    }

    /// The least format of the runs of an agent.
    ///
    /// Every member is named, so that one that is new has to be given its format: what a server does not
    /// know it refuses to read.
    pub fn of_agent(spec: &AgentSpec) -> Self {
        let AgentSpec {
            name: _,
            model,
            instructions: _,
            tools,
            skills,
            output_schema: _,
            max_steps: _,
            model_timeout_ms: _,
            tool_timeout_ms: _,
            run_timeout_ms: _,
            parallel_tools: _,
            max_tool_output_chars: _,
            redact_errors: _,
            framing_policy: _,
            announce: _,
            context_strategy: _,
            redaction: _,
            budget: Budget { tokens: _, cost: _, turns: _, tool_calls: _, time_ms: _ },
            loop_limit: _,
            output_retries: _,
            metadata: _,
        } = spec;
        let of_parts = [of_model(model), family_if(!skills.is_empty())];
        tools.iter().map(of_tool).chain(of_parts).max().unwrap_or(Self::First)
    }
}

const fn family_if(is_used: bool) -> RunFormat {
    if is_used { RunFormat::Family } else { RunFormat::First }
}

fn of_model(spec: &ModelSpec) -> RunFormat {
    let ModelSpec {
        provider: _,
        name: _,
        base_url: _,
        api_key,
        profile:
            ProfileOverrides {
                native_system: _,
                images: _,
                documents: _,
                alternates: _,
                max_call_id: _,
                max_tool_name: _,
                context_window: _,
            },
        settings:
            ModelSettings {
                temperature: _,
                top_p: _,
                max_output_tokens: _,
                seed: _,
                stop: _,
                reasoning_effort: _,
                tool_choice: _,
                parallel_tool_calls: _,
                structured_output: _,
                stream: _,
                extra_body: _,
            },
        price: _,
        script: _,
        fallbacks,
    } = spec;
    let own = family_if(api_key.is_some());
    fallbacks.iter().map(of_model).fold(own, RunFormat::max)
}

fn of_tool(tool: &ToolSpec) -> RunFormat {
    match tool {
        ToolSpec::Http(tool) => of_http(tool),
        ToolSpec::Client(tool) => of_client(tool),
        ToolSpec::Mcp(_) | ToolSpec::Agent(_) => RunFormat::Family,
        ToolSpec::Builtin(BuiltinTool { name, namespace: _, ttl_s: _ }) => {
            family_if(name.remembers())
        }
    }
}

fn of_http(tool: &HttpTool) -> RunFormat {
    let HttpTool {
        name: _,
        description: _,
        parameters: _,
        method: _,
        url: _,
        headers,
        effect: _,
        timeout_ms: _,
        on_in_doubt: _,
        hold_timeout_ms: _,
        probe_url: _,
        approval,
        approval_timeout_ms: _,
        parallel_safe: _,
        max_output_chars: _,
        redact,
        output_path: _,
    } = tool;
    let of_header = |header: &HeaderSource| match header {
        HeaderSource::Text(_) => RunFormat::First,
        HeaderSource::Secret(_) => RunFormat::Family,
    };
    let of_approval = match approval {
        Approval::Fixed(_) => RunFormat::First,
        Approval::When(_) => RunFormat::Family,
    };
    let of_parts = [of_approval, family_if(redact.is_some())];
    headers.values().map(of_header).chain(of_parts).max().unwrap_or(RunFormat::First)
}

const fn of_client(tool: &ClientTool) -> RunFormat {
    let ClientTool {
        name: _,
        description: _,
        parameters: _,
        timeout_ms: _,
        parallel_safe: _,
        max_output_chars: _,
    } = tool;
    RunFormat::First
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn format_of(more: &Value) -> RunFormat {
        let mut agent = json!({"name": "a", "model": {"provider": "scripted", "name": "s"}});
        agent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        RunFormat::of_agent(&serde_json::from_value(agent).unwrap())
    }

    fn http(more: &Value) -> Value {
        let mut tool = json!({"kind": "http", "name": "t", "parameters": {"type": "object"},
                              "url": "https://t.example/"});
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"tools": [{"kind": "builtin", "name": "final_answer"}, tool]})
    }

    fn model(more: &Value) -> Value {
        let mut model = json!({"provider": "openai", "name": "m"});
        model.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"model": model})
    }

    #[test]
    fn what_every_version_reads_has_the_first_format() {
        let client = json!({"kind": "client", "name": "c", "parameters": {"type": "object"}});
        for agent in [
            json!({}),
            json!({"tools": [client]}),
            json!({"budget": {"turns": 3}, "skills": []}),
            http(&json!({"headers": {"x-a": "plain"}, "approval": "always", "timeout_ms": 5})),
            model(&json!({"fallbacks": [{"provider": "openai", "name": "n"}]})),
        ] {
            assert_eq!(format_of(&agent), RunFormat::First, "{agent}");
        }
    }

    #[test]
    fn what_only_newer_versions_read_has_the_format_of_families() {
        let key = json!({"secret": "key"});
        for agent in [
            json!({"tools": [{"kind": "mcp", "server": "s"}]}),
            json!({"tools": [{"kind": "agent", "name": "ask", "agent": "other"}]}),
            json!({"skills": ["invoices"]}),
            http(&json!({"headers": {"x-a": "plain", "authorization": key}})),
            http(&json!({"approval": {"when": "/n > 1"}})),
            http(&json!({"redact": false})),
            model(&json!({"api_key": key})),
            model(&json!({"fallbacks": [{"provider": "openai", "name": "n", "api_key": key}]})),
        ] {
            assert_eq!(format_of(&agent), RunFormat::Family, "{agent}");
        }
    }
}
