//! The fault cases, by number: what is done to a server or its database, and what must come of it.

mod commits;
mod guards;
mod postgres;
