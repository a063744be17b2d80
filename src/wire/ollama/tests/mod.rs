//! Tests of the codec on made-up exchanges, and of recorded requests.

mod followups;
mod replies;
mod requests;
