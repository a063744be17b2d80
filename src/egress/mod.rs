//! The one door for every call whose target a tenant can influence: tools and their probes, MCP servers,
//! webhooks, and models at a `base_url`.
//!
//! [`EgressPolicy`] judges a URL anew at every use. What it admits goes out through one of two clients of
//! [`Clients`]: one for hosts that the operator vouches for, and a guarded one. The guarded one looks a
//! name up once, refuses it if any of its addresses is closed, connects to the addresses that it has
//! judged and to nothing else, and looks at the peer again before a byte is sent. Neither follows
//! redirects. Whoever makes a client of its own, such as the sender of models, hands its builder to
//! [`guard`].
//!
//! Refusals name the rule that is broken and never an address, so that they tell nothing about the
//! operator's network.

mod address;
mod clients;
mod deliver;
mod dns;
mod fetch;
mod peer;
mod policy;
mod reach;
#[cfg(test)]
mod tests;

pub use address::Network;
pub use clients::{Clients, MAX_HEADER_BYTES, SetupError, guard, refusal_in};
pub use deliver::deliver;
pub use fetch::{FetchError, fetch};
pub use policy::{EgressDenied, EgressPolicy, EgressRule, InvalidAllowEntry, Route};
pub use reach::Reached;
