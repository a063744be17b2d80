//! The sessions of a process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use rmcp::model::Tool;
use tokio::sync::Mutex as AsyncMutex;
use url::Url;

use super::session::{Session, Target};
use super::stdio;
use super::vet;
use crate::clock::SharedClock;
use crate::config::McpProgram;
use crate::domain::id::TenantId;
use crate::domain::mcp::{CONNECT_TIMEOUT_MS, Listing, McpServerSpec, McpUnavailable};
use crate::domain::tool::ToolCallError;
use crate::egress::Clients;
use crate::tools::headers::Headers;
use crate::tools::loss::Loss;
use crate::tools::mask::Mask;
use crate::tools::secrets::Vault;

/// How long a session is kept that nobody uses.
const IDLE: Duration = Duration::from_mins(10);
/// The pauses ahead of further tries to reach a server; nothing was sent before them.
const PAUSES: [Duration; 6] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// Finds the servers that tenants registered. Who keeps them belongs to another layer.
pub trait McpSource: Send + Sync + std::fmt::Debug {
    /// The server of a name; `None` when there is none, an error when that cannot be known.
    fn find<'a>(
        &'a self,
        tenant: &'a TenantId,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<McpServerSpec>, ServersUnread>>;
}

/// The servers cannot be read at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the MCP servers cannot be read at the moment")]
pub struct ServersUnread;

/// A source without servers.
#[derive(Debug, Clone, Copy)]
pub struct NoServers;

impl McpSource for NoServers {
    fn find<'a>(
        &'a self,
        _: &'a TenantId,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Option<McpServerSpec>, ServersUnread>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

type Slot = AsyncMutex<Option<Arc<Session>>>;

/// By tenant and server: when the session was used last, and the session.
type Slots = BTreeMap<(TenantId, String), (Duration, Arc<Slot>)>;

/// Sessions with servers, by tenant and server.
#[derive(Debug)]
pub struct McpClients {
    source: Arc<dyn McpSource>,
    programs: Vec<Arc<McpProgram>>,
    clock: SharedClock,
    slots: Mutex<Slots>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Session")
    }
}

/// A server that is to be asked something, and what takes its secrets out of what it answers.
pub(super) struct Reach<'a> {
    pub(super) key: (&'a TenantId, &'a str),
    pub(super) target: Target,
    pub(super) spec: McpServerSpec,
    pub(super) mask: Mask,
}

impl McpClients {
    /// Clients without a session yet.
    pub fn new(source: Arc<dyn McpSource>, programs: Vec<McpProgram>, clock: SharedClock) -> Self {
        let programs = programs.into_iter().map(Arc::new).collect();
        Self { source, programs, clock, slots: Mutex::default() }
    }

    /// The program of the operator's that a tenant knows by a name.
    pub(in crate::tools) fn program(
        &self,
        tenant: &TenantId,
        name: &str,
    ) -> Option<&Arc<McpProgram>> {
        let is_it = |program: &&Arc<McpProgram>| {
            program.spec.name == name && stdio::serves(program, tenant)
        };
        self.programs.iter().find(is_it)
    }

    /// Where a server is reached, and what it is sent.
    pub(super) async fn find<'a>(
        &self,
        (vault, name): (Vault<'a>, &'a str),
    ) -> Result<Reach<'a>, Unfound> {
        let tenant = vault.tenant;
        if let Some(program) = self.program(tenant, name) {
            let (target, spec) = (Target::Stdio(Arc::clone(program)), program.spec.clone());
            let mask = Mask::of_environment(&program.env);
            return Ok(Reach { key: (tenant, name), target, spec, mask });
        }
        let found = self.source.find(tenant, name).await.map_err(|_| Unfound::Unread)?;
        let spec = found.ok_or(Unfound::Missing)?;
        self.reach((vault, name), spec).await
    }

    /// The same for a server that is known.
    pub(super) async fn reach<'a>(
        &self,
        (vault, name): (Vault<'a>, &'a str),
        spec: McpServerSpec,
    ) -> Result<Reach<'a>, Unfound> {
        let url = Url::parse(&spec.url).map_err(|_| Unfound::Missing)?;
        let headers = Headers::compile(&spec.headers).map_err(|_| Unfound::Missing)?;
        let (headers, mask) = headers.resolve(vault, &url).await.map_err(Unfound::Secret)?;
        let target = Target::Http { url, headers };
        Ok(Reach { key: (vault.tenant, name), target, spec, mask })
    }

    /// The session with a server, and whether it began just now.
    pub(super) async fn session(
        &self,
        clients: &Clients,
        reach: &Reach<'_>,
    ) -> Result<(Arc<Session>, bool), Loss> {
        let slot = self.slot(reach.key);
        // Whoever comes second waits for the session of the first.
        let mut held = slot.lock().await;
        let usable =
            |session: &&Arc<Session>| session.is_open() && session.target.is_as(&reach.target);
        if let Some(session) = held.as_ref().filter(usable) {
            return Ok((Arc::clone(session), false));
        }
        *held = None;
        let session = Arc::new(Session::begin(clients, reach.target.clone()).await?);
        *held = Some(Arc::clone(&session));
        Ok((session, true))
    }

    /// The same, with further tries as long as nothing was sent.
    pub(super) async fn patient_session(
        &self,
        clients: &Clients,
        reach: &Reach<'_>,
    ) -> Result<(Arc<Session>, bool), Loss> {
        for pause in PAUSES {
            match self.session(clients, reach).await {
                Err(loss) if loss.is_undone() => tokio::time::sleep(pause).await,
                begun => return begun,
            }
        }
        self.session(clients, reach).await
    }

    /// Forgets a session that is of no use any more.
    pub(super) async fn forget(&self, key: (&TenantId, &str), session: &Arc<Session>) {
        let slot = self.slot(key);
        let mut held = slot.lock().await;
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, session)) {
            *held = None;
        }
    }

    fn slot(&self, (tenant, name): (&TenantId, &str)) -> Arc<Slot> {
        let now = self.clock.monotonic();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let is_used = |at: Duration, slot: &Arc<Slot>| {
            now.saturating_sub(at) < IDLE || Arc::strong_count(slot) > 1
        };
        slots.retain(|_, (at, slot)| is_used(*at, slot));
        let entry = slots.entry((tenant.clone(), name.to_owned()));
        let (used_at, slot) = entry.or_insert_with(|| (now, Arc::default()));
        *used_at = now;
        Arc::clone(slot)
    }

    /// Lists what a server of a name has, within its time.
    pub(in crate::tools) async fn list(
        &self,
        clients: &Clients,
        (vault, name): (Vault<'_>, &str),
    ) -> Result<(McpServerSpec, Listing), McpUnavailable> {
        let reach = self.find((vault, name)).await.map_err(Unfound::told)?;
        let listing = self.list_reached(clients, &reach).await?;
        Ok((reach.spec, listing))
    }

    /// Lists what a server has in a session of its own, so that all of the way is tried.
    pub(in crate::tools) async fn test(
        &self,
        clients: &Clients,
        (vault, spec): (Vault<'_>, &McpServerSpec),
    ) -> Result<Listing, McpUnavailable> {
        let reach = self.reach((vault, &spec.name), spec.clone()).await.map_err(Unfound::told)?;
        let asked = async {
            let session = Session::begin(clients, reach.target.clone()).await?;
            session.tools().await.map(|tools| (session.info.clone(), tools))
        };
        in_time(&reach, asked).await.map(|(info, tools)| listing(&reach, info, &tools))
    }

    async fn list_reached(
        &self,
        clients: &Clients,
        reach: &Reach<'_>,
    ) -> Result<Listing, McpUnavailable> {
        let asked = async {
            let (session, is_new) = self.patient_session(clients, reach).await?;
            match session.tools().await {
                Ok(tools) => Ok((session.info.clone(), tools)),
                Err(_) if !is_new => {
                    // Lists may be asked for as often as one likes.
                    self.forget(reach.key, &session).await;
                    let (session, _) = self.patient_session(clients, reach).await?;
                    session.tools().await.map(|tools| (session.info.clone(), tools))
                }
                Err(loss) => Err(loss),
            }
        };
        in_time(reach, asked).await.map(|(info, tools)| listing(reach, info, &tools))
    }
}

fn listing(reach: &Reach<'_>, info: crate::domain::mcp::McpServerInfo, tools: &[Tool]) -> Listing {
    let listing = Listing { info, ..vet::listing(tools) };
    vet::masked(listing, &reach.mask)
}

async fn in_time<T>(
    reach: &Reach<'_>,
    asked: impl Future<Output = Result<T, Loss>>,
) -> Result<T, McpUnavailable> {
    let bound = reach.spec.connect_timeout_ms.unwrap_or(CONNECT_TIMEOUT_MS);
    match tokio::time::timeout(Duration::from_millis(bound), asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(Loss::Denied(refusal))) => Err(McpUnavailable::Denied(refusal.to_string())),
        Ok(Err(loss)) => Err(McpUnavailable::Failed(reach.mask.text(&loss.told()).into_owned())),
        Err(_) => {
            Err(McpUnavailable::Failed(format!("the server did not answer within {bound} ms")))
        }
    }
}

/// Why it is not known where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unfound {
    /// There is none of the name.
    Missing,
    /// That cannot be known at the moment.
    Unread,
    /// A secret that it is sent cannot be had.
    Secret(ToolCallError),
}

impl Unfound {
    pub(super) fn told(self) -> McpUnavailable {
        match self {
            Self::Missing => McpUnavailable::Unknown,
            Self::Unread => McpUnavailable::Failed(ServersUnread.to_string()),
            Self::Secret(error) => McpUnavailable::Failed(error.message),
        }
    }
}
