//! The HTTP of MCP: every request is admitted on its own, is made once, and follows no redirect.

use std::io;
use std::sync::Arc;

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;
use url::Url;

use crate::egress::Clients;

/// The most bytes of one message that are read at all. What is told of a result has a tighter bound.
pub(super) const MAX_MESSAGE: usize = 16 * 1024 * 1024;

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
            // A server that does not know the session may say so without the id of the request, and
            // then nothing was done about it.
            StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), _)
                if has_session && asked.is_some() && error.id != asked =>
            {
                Err(WireError::SessionExpired)
            }
            answer => Ok(answer),
        }
    }
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
