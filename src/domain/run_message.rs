//! Messages to a run that is under way.

use chrono::{DateTime, Utc};

use super::id::RunId;
use super::step::{InputPart, InputText, StepContent, SystemStep, TaskStep};
use crate::labels;

/// Messages of a run that may wait for its next turn.
pub const WAITING_PER_RUN: u32 = 100;

labels! {
    /// Whose voice a message has.
    Voice {
        /// The person the run works for.
        User = "user",
        /// The operator.
        System = "system",
    }
}

impl Voice {
    /// The step that a text in this voice becomes.
    pub fn step(self, text: String) -> StepContent {
        match self {
            Self::User => {
                let parts = vec![InputPart::Text(InputText { text })];
                StepContent::Task(TaskStep { parts })
            }
            Self::System => StepContent::System(SystemStep { text }),
        }
    }

    /// The voice and the text that became a step.
    pub fn heard(step: &StepContent) -> Option<(Self, &str)> {
        match step {
            StepContent::Task(task) => {
                let text = task.parts.iter().find_map(InputPart::text)?;
                Some((Self::User, text))
            }
            StepContent::System(system) => Some((Self::System, &system.text)),
            StepContent::Action(_)
            | StepContent::Retry(_)
            | StepContent::Context(_)
            | StepContent::Tools(_)
            | StepContent::Summary(_)
            | StepContent::Final(_) => None,
        }
    }
}

/// A message that was added to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunMessage {
    /// The run.
    pub run_id: RunId,
    /// Its place among the messages of the run: 1, 2, 3 …
    pub number: u32,
    /// Whose voice it has.
    pub voice: Voice,
    /// The text.
    pub text: String,
    /// When it was added.
    pub created_at: DateTime<Utc>,
}
