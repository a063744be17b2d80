//! Tools by themselves.

mod test;
