//! Stub.
use crate::domain::agent::AgentSpec;
use crate::http::extract::Checks;
/// stub
pub(crate) fn check(_: &AgentSpec, _: &str, _: &mut Checks) {}
