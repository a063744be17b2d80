//! What a server must be beyond what its published schema says.

use crate::domain::id::TenantId;
use crate::domain::mcp::McpServerSpec;
use crate::engine::servers;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::extract::Checks;

/// The longest URL of a server, in characters.
const URL_CHARS: usize = 2_048;
/// The most names in a list of tools.
const NAMES: usize = 1_024;

/// Refuses what cannot be stored.
pub(super) async fn check(
    app: &AppState,
    tenant: &TenantId,
    spec: &McpServerSpec,
) -> Result<(), AgentlingError> {
    let mut checks = Checks::new();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let fits = (1..=64).contains(&spec.name.len()) && spec.name.bytes().all(is_plain);
    checks.require(fits, "/name", "invalid_value", "must match ^[A-Za-z0-9_-]{1,64}$");
    checks.length("/url", &spec.url, 1..=URL_CHARS);
    if let Some(ms) = spec.connect_timeout_ms {
        checks.range("/connect_timeout_ms", ms, 1..=60_000);
    }
    let n_names = [spec.allow.as_ref().map_or(0, Vec::len), spec.deny.len(), spec.overrides.len()];
    for (n, pointer) in n_names.into_iter().zip(["/allow", "/deny", "/overrides"]) {
        checks.require(n <= NAMES, pointer, "too_many", "must name at most 1024 tools");
    }
    checks.metadata("/metadata", &spec.metadata);
    checks.finish()?;
    servers::check(&app.engine, tenant, spec).await
}
