//! Behaviour of memory documents.

mod codes;
mod generate;
mod version_1;
mod version_2;
