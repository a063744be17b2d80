//! Behaviour of memory documents.

mod codes;
mod generate;
mod list_files;
mod lists;
mod version_1;
mod version_2;
