//! Tests of the codec on made-up exchanges, and of the requests of recorded ones; what is recorded of
//! replies is read in `provider`.

mod errors;
mod followups;
mod items;
mod replies;
mod requests;
