//! Calls that no result came of: which of them may have taken effect all the same, in one table for every
//! kind of tool that is called over a wire.

use std::time::Duration;

use crate::domain::tool::{EffectClass, OutcomeKind, ToolCallError};
use crate::egress::EgressDenied;

/// Told of a server to which there was no connection.
pub(super) const UNREACHED: &str = "the tool's server could not be reached";

/// Why no result came of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Loss {
    /// It must not be made, or cannot.
    Unmade(ToolCallError),
    /// The rules of the operator refuse it.
    Denied(EgressDenied),
    /// It was not sent.
    NotSent(String),
    /// The server says that it does not know the session of the call, so that it did nothing about it.
    NoSession,
    /// Its time was over before it was sent.
    TooLateToSend { tool: String, bound: Duration },
    /// It was sent, and its time was over before the answer was there.
    Late { tool: String, bound: Duration },
    /// It was sent, and no answer came.
    Lost,
    /// Somebody answered that nobody is there: the server that ended the session, or whoever stands before
    /// it and knows nothing of what the server did.
    Nowhere,
    /// It was answered as one that succeeded, and the answer cannot be read.
    Unread { type_name: &'static str, text: String },
    /// The server answered that it is not what its tool takes.
    Invalid(String),
    /// The server answered, and not with a result.
    Refused { type_name: &'static str, text: String },
}

impl Loss {
    /// Whether the call may have taken effect although its server does not say so. What a server does say,
    /// also that it failed, is an answer.
    pub(super) const fn leaves_doubt(&self) -> bool {
        match self {
            Self::Late { .. } | Self::Lost | Self::Nowhere | Self::Unread { .. } => true,
            Self::Unmade(_)
            | Self::Denied(_)
            | Self::NotSent(_)
            | Self::NoSession
            | Self::TooLateToSend { .. }
            | Self::Invalid(_)
            | Self::Refused { .. } => false,
        }
    }

    /// Whether another try repeats nothing.
    pub(super) const fn is_undone(&self) -> bool {
        matches!(self, Self::NotSent(_) | Self::NoSession)
    }

    /// Whether nothing left for the server at all.
    pub(super) const fn is_unsent(&self) -> bool {
        matches!(
            self,
            Self::Unmade(_) | Self::Denied(_) | Self::NotSent(_) | Self::TooLateToSend { .. }
        )
    }

    /// The same as what the model reads. A call that must not run twice and may have taken effect is in
    /// doubt; any other failed.
    pub(super) fn into_error(self, effect: EffectClass) -> ToolCallError {
        let is_doubtful = self.leaves_doubt();
        let error = match self {
            Self::TooLateToSend { bound, .. } if effect == EffectClass::AtMostOnce => {
                let bound = bound.as_secs_f64();
                let text = format!("{UNREACHED} within its {bound}s timeout, and nothing was sent");
                failure(OutcomeKind::Execution, "ConnectError", text)
            }
            loss => loss.plain(),
        };
        if !is_doubtful || effect != EffectClass::AtMostOnce {
            return error;
        }
        let text = error.message;
        let message = format!(
            "the call was sent, but {text}; it may or may not have taken effect and must be verified \
             before it is repeated"
        );
        failure(OutcomeKind::InDoubt, error.type_name, message)
    }

    fn plain(self) -> ToolCallError {
        let (type_name, text) = match self {
            Self::Unmade(error) => return error,
            Self::TooLateToSend { tool, bound } | Self::Late { tool, bound } => {
                let text = format!("tool '{tool}' exceeded its {}s timeout", bound.as_secs_f64());
                return failure(OutcomeKind::Timeout, "Timeout", text);
            }
            Self::Invalid(text) => {
                return failure(OutcomeKind::InvalidArguments, "InvalidArguments", text);
            }
            Self::Denied(refusal) => ("EgressDenied", refusal.to_string()),
            Self::NotSent(text) => ("ConnectError", text),
            Self::NoSession => ("ConnectError", "the server ended the session".to_owned()),
            Self::Lost => ("ConnectionLost", "its answer was lost".to_owned()),
            Self::Nowhere => ("HttpStatus", "the server answered with status 404".to_owned()),
            Self::Unread { type_name, text } | Self::Refused { type_name, text } => {
                (type_name, text)
            }
        };
        failure(OutcomeKind::Execution, type_name, text)
    }

    /// The same for whoever looks after the server.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Lost => "the server hung up before it answered".to_owned(),
            loss => loss.clone().plain().message,
        }
    }
}

impl From<ToolCallError> for Loss {
    fn from(error: ToolCallError) -> Self {
        Self::Unmade(error)
    }
}

/// A failure of a call.
pub(super) fn failure(
    kind: OutcomeKind,
    type_name: &'static str,
    message: impl Into<String>,
) -> ToolCallError {
    ToolCallError { kind, type_name, message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every loss, with what the model is told of it where the call may be repeated and where not.
    fn table() -> Vec<(Loss, OutcomeKind, OutcomeKind)> {
        use OutcomeKind::{Execution, InDoubt, InvalidArguments, Timeout};
        let (tool, bound, text) =
            ("t".to_owned(), Duration::from_millis(1_500), "it is".to_owned());
        let late = (tool.clone(), bound);
        vec![
            (Loss::Unmade(failure(Execution, "InvalidTool", "no")), Execution, Execution),
            (Loss::NotSent(text.clone()), Execution, Execution),
            (Loss::NoSession, Execution, Execution),
            (Loss::TooLateToSend { tool, bound }, Timeout, Execution),
            (Loss::Late { tool: late.0, bound: late.1 }, Timeout, InDoubt),
            (Loss::Lost, Execution, InDoubt),
            (Loss::Nowhere, Execution, InDoubt),
            (Loss::Unread { type_name: "R", text: text.clone() }, Execution, InDoubt),
            (Loss::Invalid(text.clone()), InvalidArguments, InvalidArguments),
            (Loss::Refused { type_name: "R", text }, Execution, Execution),
        ]
    }

    #[test]
    fn only_what_was_sent_and_not_answered_leaves_doubt_where_it_must_not_be_repeated() {
        for (loss, repeatable, once) in table() {
            for effect in [EffectClass::Pure, EffectClass::Idempotent] {
                assert_eq!(loss.clone().into_error(effect).kind, repeatable, "{loss:?}");
            }
            let error = loss.clone().into_error(EffectClass::AtMostOnce);
            assert_eq!(error.kind, once, "{loss:?}");
            let is_doubtful = once == OutcomeKind::InDoubt;
            assert_eq!(loss.leaves_doubt(), is_doubtful, "{loss:?}");
            assert_eq!(error.message.contains("may or may not have taken effect"), is_doubtful);
            assert!(!(loss.leaves_doubt() && loss.is_undone()), "{loss:?}");
        }
    }
}
