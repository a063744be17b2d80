//! What a failed request in a session says, as one of the losses that every tool knows.

use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;

use super::wire::{Nowhere, WireError};
use crate::egress::{EgressDenied, refusal_in};
use crate::tools::loss::{Loss, UNREACHED};

/// Characters of what a server says of a failure that are told.
const MAX_TEXT: usize = 1_000;

/// What the beginning of a session came to nothing by; no tool was called in it.
pub(super) fn of_start(error: &ClientInitializeError) -> Loss {
    match error {
        ClientInitializeError::TransportError { error, .. } => match of_transport(error) {
            Loss::Lost | Loss::Nowhere => Loss::NotSent(UNREACHED.to_owned()),
            // No call hangs on it.
            Loss::Unread { type_name, text } => Loss::Refused { type_name, text },
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
        WireError::Io(error) => of_io(error),
        WireError::SessionExpired => Loss::NoSession,
        WireError::HttpStatus(answer) => status(answer.status),
        WireError::ResponseBodyTooLarge { .. } => Loss::Unread {
            type_name: "ResponseTooLarge",
            text: "the body of the tool's answer is larger than allowed".to_owned(),
        },
        WireError::UnexpectedServerResponse(_)
        | WireError::UnexpectedContentType(_)
        | WireError::Deserialize(_) => unreadable(),
        _ => Loss::Lost,
    }
}

fn of_io(error: &std::io::Error) -> Loss {
    let Some(inner) = error.get_ref() else { return Loss::Lost };
    match inner.downcast_ref::<EgressDenied>() {
        Some(refusal) => Loss::Denied(*refusal),
        None if inner.is::<Nowhere>() => Loss::Nowhere,
        None => Loss::Lost,
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
    Loss::Unread {
        type_name: "InvalidResponse",
        text: "the server's answer is not one of MCP".to_owned(),
    }
}
