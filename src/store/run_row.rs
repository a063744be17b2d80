//! The row of a run, as far as callers may know it.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::StoreError;
use super::rows::At;
use crate::domain::id::{AgentId, CallId, RunId, ThreadId};
use crate::domain::model::Usage;
use crate::domain::money::Money;
use crate::domain::run::{Run, RunFacts};
use crate::domain::sub_run::Parent;

pub(super) struct RunRow {
    pub(super) run_id: Uuid,
    pub(super) thread_id: Uuid,
    pub(super) agent_id: Option<Uuid>,
    pub(super) agent_version: Option<i32>,
    pub(super) parent_call_id: Option<String>,
    pub(super) ancestors: Vec<Uuid>,
    pub(super) status: String,
    pub(super) stop_reason: Option<String>,
    pub(super) answer: Option<String>,
    pub(super) output: Option<String>,
    pub(super) failure: Option<String>,
    pub(super) requires_action: Option<String>,
    pub(super) stopped: Option<String>,
    pub(super) turn: i32,
    pub(super) attempt: i32,
    pub(super) n_steps: i32,
    pub(super) usage_input: i64,
    pub(super) usage_output: i64,
    pub(super) usage_cache_read: i64,
    pub(super) usage_cache_write: i64,
    pub(super) usage_reasoning: i64,
    pub(super) cost: Option<i64>,
    pub(super) budget: Option<String>,
    pub(super) redactions: String,
    pub(super) unavailable_servers: Option<String>,
    pub(super) metadata: String,
    pub(super) created_at: DateTime<Utc>,
    pub(super) started_at: Option<DateTime<Utc>>,
    pub(super) finished_at: Option<DateTime<Utc>>,
}

impl TryFrom<RunRow> for Run {
    type Error = StoreError;

    fn try_from(row: RunRow) -> Result<Self, StoreError> {
        let id = RunId::from(row.run_id);
        let at = At { table: "run", id: &id };
        let facts = RunFacts {
            status: at.label("status", &row.status)?,
            stop_reason: at.label_opt("stop_reason", row.stop_reason.as_deref())?,
            output: at.json_opt("output", row.output.as_deref())?,
            failure: at.json_opt("failure", row.failure.as_deref())?,
            requires_action: at.json_opt("requires_action", row.requires_action.as_deref())?,
            stopped: at.json_opt("stopped", row.stopped.as_deref())?,
            usage: Usage {
                input: at.count("usage_input", row.usage_input)?,
                output: at.count("usage_output", row.usage_output)?,
                cache_read: at.count("usage_cache_read", row.usage_cache_read)?,
                cache_write: at.count("usage_cache_write", row.usage_cache_write)?,
                reasoning: at.count("usage_reasoning", row.usage_reasoning)?,
            },
            cost: row.cost.map(|cost| at.count("cost", cost)).transpose()?.map(Money::of_micros),
            steps: at.count("n_steps", row.n_steps)?,
            turn: at.count("turn", row.turn)?,
            attempt: at.count("attempt", row.attempt)?,
            redactions: at.json("redactions", &row.redactions)?,
            unavailable_servers: at
                .json_opt("unavailable_servers", row.unavailable_servers.as_deref())?
                .unwrap_or_default(),
            answer: row.answer,
            started_at: row.started_at,
            finished_at: row.finished_at,
        };
        Ok(Self {
            id,
            thread_id: ThreadId::from(row.thread_id),
            agent_id: row.agent_id.map(AgentId::from),
            agent_version: row.agent_version,
            parent: parent(row.parent_call_id, row.ancestors),
            metadata: at.json("metadata", &row.metadata)?,
            created_at: row.created_at,
            budget: at.json_opt("budget", row.budget.as_deref())?.unwrap_or_default(),
            facts,
        })
    }
}

/// Who started a run, from the call and the runs that it was started for.
fn parent(call: Option<String>, mut ancestors: Vec<Uuid>) -> Option<Parent> {
    let run = ancestors.pop()?;
    let above = ancestors.into_iter().map(RunId::from).collect();
    Some(Parent { run: run.into(), call: CallId(call?), above })
}
