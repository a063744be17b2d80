//! API keys, made as an operator makes them.

use std::process::Command;

use super::TestDb;

/// A key for a tenant, by `agentling keys create`. It closes the server for callers without one.
pub(crate) async fn create_key(db: &TestDb, tenant: &str, scopes: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentling"));
    command.args(["keys", "create", "--name", "test", "--tenant", tenant]);
    command.args(scopes.iter().flat_map(|scope| ["--scope", *scope]));
    command.env("DATABASE_URL", &db.url);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
