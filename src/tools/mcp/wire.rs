//! The HTTP of MCP: every request is admitted on its own, is made once, and follows no redirect.

use std::io;
use std::sync::Arc;

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use url::Url;

use crate::egress::Clients;

/// The most bytes of one message that are read at all: a result of 4 MiB in base64, and what is around it.
pub(super) const MAX_MESSAGE: usize = 6 * 1024 * 1024;

/// What can go wrong with a request.
pub(super) type WireError = StreamableHttpError<reqwest::Error>;

/// The type that the transport hands headers on in.
#[expect(clippy::disallowed_types, reason = "it is that of the transport's interface")]
type Headers = std::collections::HashMap<HeaderName, HeaderValue>;

/// A client that may reach one URL.
#[derive(Debug, Clone)]
pub(super) struct Guarded {
    clients: Clients,
    url: Url,
}

impl Guarded {
    pub(super) const fn new(clients: Clients, url: Url) -> Self {
        Self { clients, url }
    }

    fn admitted(&self) -> Result<reqwest::Client, WireError> {
        let refused = |refusal| WireError::Io(io::Error::other(refusal));
        self.clients.admit(&self.url).cloned().map_err(refused)
    }

    async fn post(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        (auth_header, headers, limits): (Option<String>, Headers, StreamableHttpResponseLimits),
    ) -> Result<StreamableHttpPostResponse, WireError> {
        let asked = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let has_session = session_id.is_some();
        let client = self.admitted()?;
        let answer = client.post_message_with_response_limits(
            uri,
            message,
            session_id,
            auth_header,
            headers,
            limits,
        );
        match answer.await? {
            StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), _)
                if asked.is_some() && error.id != asked =>
            {
                if has_session && error.id.is_none() && is_about_sessions(&error.error) {
                    return Err(WireError::SessionExpired);
                }
                // Whoever stands between may have given up while the server was at it.
                Err(WireError::Io(io::Error::other("an error that answers no request")))
            }
            answer => Ok(answer),
        }
    }
}

/// Whether a server says that it does not know the session. The protocol has status 404 for that; servers
/// that send an error instead say so in words, before anything is done about a request. The codes alone
/// are those of any failure.
fn is_about_sessions(error: &ErrorData) -> bool {
    const CODES: [i32; 3] = [-32_000, -32_001, -32_600];
    CODES.contains(&error.code.0) && error.message.to_ascii_lowercase().contains("session")
}

impl StreamableHttpClient for Guarded {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, WireError> {
        let limits = StreamableHttpResponseLimits::default();
        let rest = (auth_header, custom_headers, limits);
        self.post(uri, message, session_id, rest).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, WireError> {
        self.post(uri, message, session_id, (auth_header, custom_headers, limits)).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), WireError> {
        self.admitted()?.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, WireError> {
        // A standing stream would tell of changes, and those of the next run are asked for then.
        if last_event_id.is_none() {
            return Err(WireError::ServerDoesNotSupportSse);
        }
        let client = self.admitted()?;
        let resumed = client.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            auth_header,
            custom_headers,
            MAX_MESSAGE,
        );
        resumed.await
    }
}
