//! Records to rows and rows to records: what the machine decides becomes one batch for the store, and
//! what the store holds becomes the records that the machine's state is the fold of.

mod calls;
mod read;
mod slots;
mod write;

pub(super) use read::records_of;
pub(super) use slots::counted_calls;
pub(super) use write::{Journal, Stamp};
