//! The HTTP of MCP: every request is admitted on its own, is made once, and follows no redirect.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{BoxStream, Stream, StreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::Response;
use reqwest::header::{ACCEPT, AsHeaderName, CONTENT_TYPE};
use rmcp::model::{
    ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    HttpStatusError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::{Sse, SseStream};
use url::Url;

use super::lenient;
use crate::egress::Clients;
use crate::tools::body::{End, gather};

/// The most bytes of one message that are read at all: a result of 4 MiB in base64, and what is around it.
pub(super) const MAX_MESSAGE: usize = 6 * 1024 * 1024;

/// Bytes of the body of a refusal that are looked at.
const SAID: usize = 4 * 1024;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";
const ACCEPTED: &str = "text/event-stream, application/json";
const SESSION: &str = "mcp-session-id";
/// Headers that are the transport's own.
const RESERVED: [&str; 3] = ["accept", SESSION, "last-event-id"];

/// What can go wrong with a request.
pub(super) type WireError = StreamableHttpError<reqwest::Error>;

/// Within a session nobody was found, and whoever says so does not speak of sessions: the server may be
/// gone, or stand behind somebody who has lost it.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("nobody is there, and nobody says that the session is over")]
pub(super) struct Nowhere;

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

    /// Posts a message. The body of the answer is read here and not by the client of the transport, which
    /// refuses what it does not know.
    async fn post(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        (auth_header, headers): (Option<String>, Headers),
    ) -> Result<StreamableHttpPostResponse, WireError> {
        let asked = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let has_session = session_id.is_some();
        let mut request = self.admitted()?.post(uri.as_ref()).header(ACCEPT, ACCEPTED);
        if let Some(token) = auth_header {
            request = request.bearer_auth(token);
        }
        let headers = HeaderMap::from_iter(headers);
        if let Some(name) = headers.keys().find(|name| RESERVED.contains(&name.as_str())) {
            return Err(WireError::ReservedHeaderConflict(name.to_string()));
        }
        request = request.headers(headers);
        if let Some(id) = session_id {
            request = request.header(SESSION, id.as_ref());
        }
        let answer = request.json(&message).send().await.map_err(WireError::Client)?;
        match (answer.status(), asked) {
            (StatusCode::ACCEPTED | StatusCode::NO_CONTENT, _) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            (status, asked) if !status.is_success() => refused(answer, asked, has_session).await,
            // Whatever it is, nobody waits for it.
            (_, None) => Ok(StreamableHttpPostResponse::Accepted),
            (_, Some(asked)) => answered(answer, asked, has_session).await,
        }
    }
}

fn header_of(answer: &Response, name: impl AsHeaderName) -> Option<String> {
    answer.headers().get(name)?.to_str().ok().map(str::to_owned)
}

fn is_of_type(answer: &Response, media_type: &str) -> bool {
    let declared = header_of(answer, CONTENT_TYPE).unwrap_or_default();
    declared
        .split(';')
        .next()
        .is_some_and(|essence| essence.trim().eq_ignore_ascii_case(media_type))
}

/// Reads the answer to a request that was taken.
async fn answered(
    mut answer: Response,
    asked: RequestId,
    has_session: bool,
) -> Result<StreamableHttpPostResponse, WireError> {
    let session = header_of(&answer, SESSION);
    if is_of_type(&answer, EVENTS) {
        let events = SseStream::from_bytes_stream(bounded(answer.bytes_stream())).map(mended);
        return Ok(StreamableHttpPostResponse::Sse(events.boxed(), session));
    }
    if !is_of_type(&answer, JSON) {
        return Err(WireError::UnexpectedContentType(header_of(&answer, CONTENT_TYPE)));
    }
    let body = whole(&mut answer).await?;
    let message = lenient::read(&body)
        .ok_or(WireError::UnexpectedServerResponse("a body that is no message".into()))?;
    let message = related(message, &asked, has_session)?;
    Ok(StreamableHttpPostResponse::Json(message, session))
}

/// Reads why a message was not taken.
async fn refused(
    mut answer: Response,
    asked: Option<RequestId>,
    has_session: bool,
) -> Result<StreamableHttpPostResponse, WireError> {
    let (status, session) = (answer.status(), header_of(&answer, SESSION));
    let is_json = is_of_type(&answer, JSON);
    let body = whole(&mut answer).await.unwrap_or_default();
    let said = if is_json { lenient::read(&body) } else { None };
    if let (Some(message @ JsonRpcMessage::Error(_)), Some(asked)) = (said, asked)
        && !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
    {
        let is_gone = status == StatusCode::NOT_FOUND && has_session;
        match related(message, &asked, has_session) {
            // What it says is no more than that there is nobody.
            Ok(_) | Err(WireError::Io(_)) if is_gone => {}
            related => return related.map(|it| StreamableHttpPostResponse::Json(it, session)),
        }
    }
    if status == StatusCode::NOT_FOUND && has_session {
        let is_known = session.is_some() || speaks_of_one(&body);
        return Err(if is_known {
            WireError::SessionExpired
        } else {
            WireError::Io(io::Error::other(Nowhere))
        });
    }
    Err(HttpStatusError::new(status.as_u16(), None).into())
}

/// Whether the body of a refusal is about a session: whoever stands before a server knows of none.
fn speaks_of_one(body: &[u8]) -> bool {
    let said = body.get(..SAID).unwrap_or(body);
    String::from_utf8_lossy(said).to_ascii_lowercase().contains("session")
}

/// A message that answers what was asked. An error that names no request may be about the session.
fn related(
    message: ServerJsonRpcMessage,
    asked: &RequestId,
    has_session: bool,
) -> Result<ServerJsonRpcMessage, WireError> {
    match message {
        JsonRpcMessage::Error(error) if error.id.as_ref() != Some(asked) => {
            if has_session && error.id.is_none() && is_about_sessions(&error.error) {
                return Err(WireError::SessionExpired);
            }
            // Whoever stands between may have given up while the server was at it.
            Err(WireError::Io(io::Error::other("an error that answers no request")))
        }
        message => Ok(message),
    }
}

async fn whole(answer: &mut Response) -> Result<Vec<u8>, WireError> {
    match gather(answer, MAX_MESSAGE).await {
        (body, End::Reached) => Ok(body),
        (_, End::Beyond | End::Inflated) => {
            Err(WireError::ResponseBodyTooLarge { max_size: MAX_MESSAGE })
        }
        (_, End::Unreadable) => {
            Err(WireError::UnexpectedServerResponse("a body that cannot be unpacked".into()))
        }
        (_, End::Broken(error)) => Err(WireError::Client(error)),
    }
}

/// Bytes of events, up to one that is too large.
fn bounded(
    bytes: impl Stream<Item = reqwest::Result<Bytes>> + Send,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let mut since_event = 0;
    bytes.map(move |piece| {
        let piece = piece.map_err(io::Error::other)?;
        // An empty line ends an event.
        let end = piece.windows(2).rposition(|pair| matches!(pair, b"\n\n" | b"\n\r" | b"\r\r"));
        since_event = end.map_or(since_event, |_| 0) + piece.len() - end.unwrap_or(0);
        if since_event > MAX_MESSAGE {
            return Err(io::Error::other("an event that is larger than allowed"));
        }
        Ok(piece)
    })
}

/// An event whose message is read leniently.
fn mended(event: Result<Sse, SseError>) -> Result<Sse, SseError> {
    event.map(|event| {
        let mended = event.data.as_deref().and_then(lenient::text);
        Sse { data: mended.or(event.data), ..event }
    })
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
        self.post(uri, message, session_id, (auth_header, custom_headers)).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
        _: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, WireError> {
        self.post(uri, message, session_id, (auth_header, custom_headers)).await
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
        Ok(resumed.await?.map(mended).boxed())
    }
}
