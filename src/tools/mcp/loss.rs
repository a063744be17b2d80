//! What a failed request in a session says: whether the server can have done anything.

use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;

use super::wire::WireError;
use crate::domain::tool::{OutcomeKind, ToolCallError};
use crate::egress::EgressDenied;
use crate::egress::refusal_in;

/// Characters of what a server says of a failure that are told.
const MAX_TEXT: usize = 1_000;

/// Why a request came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Loss {
    /// It must not be made.
    Denied(EgressDenied),
    /// Nothing was done about it: it was not sent, or the server did not know the session.
    NotSent(String),
    /// It was sent, and no answer came.
    Lost,
    /// The server answered that it is not what its tool takes.
    Invalid(String),
    /// The server answered, and not with a result.
    Refused { type_name: &'static str, text: String },
}

impl Loss {
    /// Whether another try in a new session repeats nothing.
    pub(super) const fn is_unsent(&self) -> bool {
        matches!(self, Self::NotSent(_))
    }

    /// The same as what the model reads.
    pub(super) fn into_error(self, may_repeat: bool) -> ToolCallError {
        let (kind, type_name, message) = match self {
            Self::Denied(refusal) => (OutcomeKind::Execution, "EgressDenied", refusal.to_string()),
            Self::NotSent(text) => (OutcomeKind::Execution, "ConnectError", text),
            Self::Lost if may_repeat => {
                let text = "the tool's answer was lost on its way".to_owned();
                (OutcomeKind::Execution, "ConnectionLost", text)
            }
            Self::Lost => {
                let text = "the call was sent, but its answer was lost; it may or may not have taken effect \
                            and must be verified before it is repeated";
                (OutcomeKind::InDoubt, "ConnectionLost", text.to_owned())
            }
            Self::Invalid(text) => (OutcomeKind::InvalidArguments, "InvalidArguments", text),
            Self::Refused { type_name, text } => (OutcomeKind::Execution, type_name, text),
        };
        ToolCallError { kind, type_name, message }
    }

    /// The same for whoever looks after the server.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Denied(refusal) => refusal.to_string(),
            Self::NotSent(text) | Self::Invalid(text) | Self::Refused { text, .. } => text.clone(),
            Self::Lost => "the server hung up before it answered".to_owned(),
        }
    }
}

/// What the beginning of a session came to nothing by; no tool was called in it.
pub(super) fn of_start(error: &ClientInitializeError) -> Loss {
    match error {
        ClientInitializeError::TransportError { error, .. } => match of_transport(error) {
            Loss::Lost => Loss::NotSent(UNREACHED.to_owned()),
            loss => loss,
        },
        ClientInitializeError::JsonRpcError(error) => of_answer(error),
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::Cancelled => {
            Loss::NotSent("the server hung up before a session began".to_owned())
        }
        _ => Loss::Refused {
            type_name: "InvalidResponse",
            text: "the server does not begin a session as MCP servers do".to_owned(),
        },
    }
}

const UNREACHED: &str = "the tool's server could not be reached";

/// What a request came to nothing by.
pub(super) fn of_service(error: &ServiceError) -> Loss {
    match error {
        ServiceError::McpError(error) => of_answer(error),
        ServiceError::TransportSend(error) => of_transport(error),
        ServiceError::UnexpectedResponse => unreadable(),
        _ => Loss::Lost,
    }
}

fn of_answer(error: &ErrorData) -> Loss {
    let said: String = error.message.chars().take(MAX_TEXT).collect();
    if error.code == ErrorCode::INVALID_PARAMS {
        return Loss::Invalid(said);
    }
    let text = format!("the server answered with error {}: {said}", error.code.0);
    Loss::Refused { type_name: "McpError", text }
}

fn of_transport(error: &DynamicTransportError) -> Loss {
    // What goes wrong on a pipe may do so behind the last byte.
    let Some(error) = error.error.downcast_ref::<WireError>() else { return Loss::Lost };
    match error {
        WireError::Client(error) => of_client(error),
        WireError::Io(error) => error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<EgressDenied>())
            .map_or(Loss::Lost, |refusal| Loss::Denied(*refusal)),
        WireError::SessionExpired => Loss::NotSent("the server ended the session".to_owned()),
        WireError::HttpStatus(answer) => status(answer.status),
        WireError::AuthRequired(_) => status(401),
        WireError::InsufficientScope(_) => status(403),
        WireError::ResponseBodyTooLarge { .. } => Loss::Refused {
            type_name: "ResponseTooLarge",
            text: "the body of the tool's answer is larger than allowed".to_owned(),
        },
        WireError::UnexpectedServerResponse(_)
        | WireError::UnexpectedContentType(_)
        | WireError::Deserialize(_) => unreadable(),
        _ => Loss::Lost,
    }
}

fn of_client(error: &reqwest::Error) -> Loss {
    if let Some(refusal) = refusal_in(error) {
        return Loss::Denied(refusal);
    }
    match error.status() {
        Some(answer) => status(answer.as_u16()),
        None if error.is_connect() => Loss::NotSent(UNREACHED.to_owned()),
        None => Loss::Lost,
    }
}

fn status(status: u16) -> Loss {
    let text = format!("the server answered with status {status}");
    Loss::Refused { type_name: "HttpStatus", text }
}

fn unreadable() -> Loss {
    Loss::Refused {
        type_name: "InvalidResponse",
        text: "the server's answer is not one of MCP".to_owned(),
    }
}
