//! A call of the current turn, as far as it has come.

use serde_json::Value;

use crate::domain::tool::{
    CallState, FINAL_ANSWER, OutcomeKind, PlannedCall, ToolOutcome, ToolOutput,
};
use crate::domain::wait::{OnInDoubt, WaitReason};

/// A call of the current turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// What was planned. Nothing of it is settled: a settled call has ended without a start, and it
    /// makes no difference whether a journal tells that with the plan or as an outcome of its own.
    pub planned: PlannedCall,
    /// How often it was started; 0 while it is planned.
    pub attempt: u32,
    /// What it waits for.
    pub waits: Option<WaitReason>,
    /// Whether whoever was asked agreed to it.
    pub(super) is_approved: bool,
    /// Whether it was asked, since it is in doubt, what became of it.
    pub(super) is_probed: bool,
    /// How it ended.
    pub ended: Option<OutcomeKind>,
    /// What it gave back, if it is a successful `final_answer`.
    pub(super) answer: Option<Answer>,
}

impl Call {
    /// How far it has come.
    pub const fn state(&self) -> CallState {
        match (self.ended, self.waits, self.attempt) {
            (Some(_), _, _) => CallState::Ended,
            (None, Some(_), _) => CallState::Waiting,
            (None, None, 0) => CallState::Planned,
            (None, None, _) => CallState::Started,
        }
    }

    /// Whether it ended without ever being started.
    pub(super) const fn is_settled(&self) -> bool {
        self.ended.is_some() && self.attempt == 0
    }

    pub(super) fn new(planned: &PlannedCall) -> Self {
        let mut planned = planned.clone();
        let settled = planned.settled.take();
        let mut call = Self {
            planned,
            attempt: 0,
            waits: None,
            is_approved: false,
            is_probed: false,
            ended: None,
            answer: None,
        };
        if let Some(outcome) = settled {
            call.end(&outcome);
        }
        call
    }

    pub(super) const fn start(&mut self, attempt: u32) {
        self.waits = None;
        self.is_probed = false;
        self.attempt = attempt;
    }

    pub(super) const fn wait(&mut self, reason: WaitReason) {
        self.waits = Some(reason);
    }

    pub(super) fn approve(&mut self, arguments: Option<&str>) {
        self.waits = None;
        self.is_approved = true;
        if let Some(arguments) = arguments {
            arguments.clone_into(&mut self.planned.arguments);
        }
    }

    /// What it has to wait for before it may be sent.
    pub(super) const fn needs(&self) -> Option<WaitReason> {
        if self.planned.waits.approval && !self.is_approved {
            Some(WaitReason::Approval)
        } else if self.planned.waits.by_client {
            Some(WaitReason::ToolResults)
        } else if self.planned.waits.by_run.is_some() {
            Some(WaitReason::SubRuns)
        } else {
            None
        }
    }

    /// Whether it is to be asked what became of it.
    pub(super) fn is_to_be_probed(&self) -> bool {
        self.ended.is_none()
            && self.waits == Some(WaitReason::InDoubt)
            && self.planned.waits.on_in_doubt == OnInDoubt::Probe
            && !self.is_probed
    }

    pub(super) fn end(&mut self, outcome: &ToolOutcome) {
        self.waits = None;
        self.ended = Some(outcome.kind);
        if outcome.kind == OutcomeKind::Success && outcome.name == FINAL_ANSWER {
            self.answer = Some(Answer::of(outcome.output.as_ref()));
        }
    }
}

/// An answer as text and, where it is JSON, as a value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) output: Option<Value>,
}

impl Answer {
    fn of(output: Option<&ToolOutput>) -> Self {
        match output {
            Some(ToolOutput::Json(output)) => {
                Self { text: output.text(), output: Some(output.json.clone()) }
            }
            Some(ToolOutput::Text(output)) => Self { text: output.text.clone(), output: None },
            None => Self { text: String::new(), output: None },
        }
    }
}
