//! A session with a server: what is agreed on at its beginning, and the requests in it.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, Implementation,
    InitializeRequestParams, JsonObject, PaginatedRequestParams, ProtocolVersion, Tool,
};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::SseRetryPolicy;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, RoleClient, ServiceExt};
use url::Url;

use super::loss::{of_service, of_start};
use super::stdio;
use super::wire::{Guarded, MAX_MESSAGE};
use crate::config::McpProgram;
use crate::domain::line::single_line;
use crate::domain::mcp::McpServerInfo;
use crate::egress::Clients;
use crate::tools::loss::Loss;

/// Pages of a list that are read.
const MAX_PAGES: usize = 32;
/// Bytes of a list, all its pages together.
const MAX_LIST_BYTES: usize = 4 * 1024 * 1024;
/// Entries of a list that are read.
const MAX_LISTED: usize = 1_024;
/// Characters of a version of the protocol that are told.
const MAX_VERSION: usize = 32;
/// How often, and how soon, an answer that broke off is asked for again where its server keeps it. The
/// request itself is not repeated.
const RESUMPTIONS: usize = 2;
const RESUMPTION_PAUSE: Duration = Duration::from_millis(200);

/// When an answer that broke off is asked for again.
#[derive(Debug)]
struct Resumption;

impl SseRetryPolicy for Resumption {
    fn retry(&self, n_before: usize) -> Option<Duration> {
        (n_before < RESUMPTIONS).then_some(RESUMPTION_PAUSE)
    }
}

/// The client's side: it offers nothing, so a server can ask nothing of it.
#[derive(Debug, Clone, Copy)]
struct Plain;

impl ClientHandler for Plain {
    fn get_info(&self) -> InitializeRequestParams {
        let own = Implementation::new("agentling", env!("CARGO_PKG_VERSION"));
        InitializeRequestParams::new(ClientCapabilities::default(), own)
    }
}

/// Where a server is reached, with what it is sent. Two that are equal may share a session.
#[derive(Clone)]
pub(super) enum Target {
    Http { url: Url, headers: HeaderMap },
    Stdio(Arc<McpProgram>),
}

impl Target {
    /// Whether a session with the other one serves this one as well.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Http { url, headers }, Self::Http { url: other, headers: others }) => {
                (url, headers) == (other, others)
            }
            (Self::Stdio(server), Self::Stdio(other)) => Arc::ptr_eq(server, other),
            _ => false,
        }
    }
}

/// A session.
pub(super) struct Session {
    service: RunningService<RoleClient, Plain>,
    pub(super) target: Target,
    pub(super) info: McpServerInfo,
}

impl Session {
    /// Begins a session.
    pub(super) async fn begin(clients: &Clients, target: Target) -> Result<Self, Loss> {
        let service = match &target {
            Target::Http { url, headers } => over_http(clients, url, headers).await,
            Target::Stdio(server) => {
                let process = stdio::start(server).map_err(|error| {
                    Loss::NotSent(format!("the server cannot be started: {}", error.kind()))
                })?;
                Plain.serve(process).await
            }
        };
        let service = service.map_err(|error| of_start(&error))?;
        let info = info_of(&service)?;
        Ok(Self { service, target, info })
    }

    /// Whether requests can still be made in it.
    pub(super) fn is_open(&self) -> bool {
        !self.service.is_closed() && !self.service.peer().is_transport_closed()
    }

    /// Everything that the server lists, within bounds.
    pub(super) async fn tools(&self) -> Result<Vec<Tool>, Loss> {
        let mut tools: Vec<Tool> = Vec::new();
        let (mut cursor, mut n_bytes) = (None, 0);
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let page = self.service.peer().list_tools(Some(params)).await;
            let page = page.map_err(|error| of_service(&error))?;
            // What was read is counted page by page, so that no list is gathered whole first.
            n_bytes += serde_json::to_vec(&page.tools).map_or(MAX_LIST_BYTES, |json| json.len());
            if n_bytes > MAX_LIST_BYTES {
                return Err(Loss::Refused {
                    type_name: "ResponseTooLarge",
                    text: "the server's list of tools is larger than allowed".to_owned(),
                });
            }
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() || tools.len() >= MAX_LISTED {
                break;
            }
        }
        tools.truncate(MAX_LISTED);
        Ok(tools)
    }

    /// Calls a tool once. Dropping it tells the server that the call is not wanted any more.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        meta: JsonObject,
    ) -> Result<CallToolResult, Loss> {
        use rmcp::model::{CallToolResponse, MetaObject, RequestMetaObject};
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        params.meta = Some(RequestMetaObject(MetaObject(meta)));
        match self.service.peer().call_tool_once(params).await {
            Ok(CallToolResponse::Complete(result)) => Ok(result),
            Ok(_) => Err(Loss::Refused {
                type_name: "Unsupported",
                text: "the server answered with a request of its own, which is not supported"
                    .into(),
            }),
            Err(error) => Err(of_service(&error)),
        }
    }
}

async fn over_http(
    clients: &Clients,
    url: &Url,
    headers: &HeaderMap,
) -> Result<RunningService<RoleClient, Plain>, ClientInitializeError> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    config.custom_headers =
        headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    // The worker itself knows what may be sent again.
    config.reinit_on_expired_session = false;
    config.retry_config = Arc::new(Resumption);
    config.max_sse_event_size = MAX_MESSAGE;
    config.max_json_response_size = MAX_MESSAGE;
    let client = Guarded::new(clients.clone(), url.clone());
    Plain.serve(StreamableHttpClientTransport::with_client(client, config)).await
}

/// What a server says of itself. One that answers with a version of the protocol that nobody knows is not
/// understood, whatever it says.
fn info_of(service: &RunningService<RoleClient, Plain>) -> Result<McpServerInfo, Loss> {
    let Some(info) = service.peer().peer_info() else { return Ok(McpServerInfo::default()) };
    let version = single_line(info.protocol_version.as_str());
    if !ProtocolVersion::KNOWN_VERSIONS.contains(&info.protocol_version) {
        let version: String = version.chars().take(MAX_VERSION).collect();
        let text = format!("the server speaks version '{version}' of MCP, which is not known");
        return Err(Loss::Refused { type_name: "UnknownProtocolVersion", text });
    }
    let own = info.server_info.as_ref();
    Ok(McpServerInfo {
        name: single_line(own.map_or("", |own| &own.name)),
        version: single_line(own.map_or("", |own| &own.version)),
        protocol_version: version,
    })
}
