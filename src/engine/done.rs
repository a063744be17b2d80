//! An effect that is over.

use std::time::Duration;

use super::sent::Sent;
use crate::domain::model::Usage;
use crate::machine::effect::Effect;
use crate::machine::input::Input;

/// An effect that is over.
pub(super) struct Done {
    /// Which one.
    pub(super) effect: Effect,
    /// What came of it.
    pub(super) input: Input,
    /// The request to a model that it made, if it made one.
    pub(super) sent: Option<Sent>,
    /// What the operator should know of a failure.
    pub(super) operator_detail: Option<String>,
    /// What a call took that leaves nothing on record.
    pub(super) spent: Option<Usage>,
    /// How long to wait before the model is asked again.
    pub(super) pause: Option<Duration>,
}

impl Done {
    pub(super) fn of(effect: Effect, input: Input) -> Self {
        Self { effect, input, sent: None, operator_detail: None, spent: None, pause: None }
    }
}
