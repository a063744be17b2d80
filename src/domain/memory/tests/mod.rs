//! Behaviour of memory documents.

mod codes;
mod generate;
mod lists;
mod version_1;
mod version_2;
