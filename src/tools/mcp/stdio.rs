//! Servers that are programs of the operator's, spoken to over pipes.

use std::process::Stdio;

use rmcp::transport::TokioChildProcess;
use secrecy::ExposeSecret as _;
use tokio::io::AsyncReadExt as _;
use tokio::process::{ChildStderr, Command};

use crate::config::McpProgram;
use crate::domain::id::TenantId;

/// Where programs are looked for whose `PATH` is not set.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Bytes of what a program says on its error output that make one line of the log.
const LOGGED: usize = 2_048;

/// Whether a program is there for a tenant.
pub(super) fn serves(program: &McpProgram, tenant: &TenantId) -> bool {
    program.tenants.as_ref().is_none_or(|tenants| tenants.contains(tenant))
}

/// Starts a program; it ends with the session that it is started for.
pub(super) fn start(server: &McpProgram) -> std::io::Result<TokioChildProcess> {
    let mut command = Command::new(&server.command);
    command.args(&server.args).env_clear().env("PATH", PATH).kill_on_drop(true);
    for (name, value) in &server.env {
        command.env(name, value.expose_secret());
    }
    let (process, errors) = TokioChildProcess::builder(command).stderr(Stdio::piped()).spawn()?;
    if let Some(errors) = errors {
        log(server.spec.name.clone(), errors);
    }
    Ok(process)
}

/// Hands what a program says on its error output to the log, for whoever looks there closely.
#[expect(clippy::disallowed_methods, reason = "it ends with the program, and nothing waits for it")]
fn log(server: String, mut errors: ChildStderr) {
    drop(tokio::spawn(async move {
        let mut buffer = vec![0; LOGGED];
        while let Ok(n) = errors.read(&mut buffer).await {
            let Some(said) = buffer.get(..n).filter(|said| !said.is_empty()) else { return };
            // Debug formatting escapes control characters, which could forge lines of the log.
            tracing::debug!(server, said = ?String::from_utf8_lossy(said), "an MCP server says");
        }
    }));
}
