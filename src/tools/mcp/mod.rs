//! Tools of MCP servers: sessions with servers, their lists, and calls.
//!
//! A session belongs to one tenant and one server, is kept between calls, and is begun anew once it is
//! lost. A call that may have been sent is repeated only when its class allows that.

mod call;
mod content;
mod lenient;
mod loss;
mod pins;
mod pool;
mod session;
mod stdio;
mod vet;
mod wire;

pub use pins::{Offer, pin};
pub use pool::{McpClients, McpSource, NoServers, ServersUnread};

pub(super) use call::McpCall;
