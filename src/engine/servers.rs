//! The MCP servers of tenants, as the tools layer asks for them.

use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::domain::id::TenantId;
use crate::domain::mcp::McpServerSpec;
use crate::store::{Store, mcp_servers};
use crate::tools::mcp::{McpSource, ServersUnread};

/// Reads servers from the store, anew for every use.
#[derive(Debug, Clone)]
pub struct StoredServers(pub Store);

impl McpSource for StoredServers {
    fn find<'a>(
        &'a self,
        tenant: &'a TenantId,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<McpServerSpec>, ServersUnread>> {
        async move {
            let found = mcp_servers::by_name(&self.0, tenant, name).await.map_err(|error| {
                tracing::warn!(%tenant, %error, source = ?error, "an MCP server cannot be read");
                ServersUnread
            })?;
            Ok(found.map(|server| server.spec))
        }
        .boxed()
    }
}
