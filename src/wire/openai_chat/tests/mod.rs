//! Tests of the codec on made-up exchanges; recorded ones are read in `provider`, which may open
//! files.

mod echoes;
mod errors;
mod followups;
mod replies;
mod requests;
mod vendors;
