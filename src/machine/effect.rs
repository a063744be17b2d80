//! What must be under way in a state. The driver starts what is due and not already running.

use crate::domain::id::CallId;

/// Something the engine has to do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Ask the model.
    CallModel {
        /// The turn.
        turn: u32,
        /// The attempt.
        attempt: u32,
        /// Whether it is the last turn, without tools.
        closing: bool,
    },
    /// Put calls on record as started, before any byte of them goes out.
    StartCalls {
        /// Which ones.
        call_ids: Vec<CallId>,
    },
    /// Ask what became of a call in doubt.
    Probe {
        /// The call.
        call_id: CallId,
        /// How often it was started.
        attempt: u32,
    },
    /// Run a tool.
    CallTool {
        /// The call.
        call_id: CallId,
        /// The attempt, from 1.
        attempt: u32,
    },
}
