//! The requests of recorded exchanges.

use std::path::PathBuf;

use serde_json::Value;

use crate::domain::provider::Wire;

/// A request as a client of the provider sent it.
#[derive(Debug)]
pub(in crate::wire) struct Recording {
    /// The exchange's id.
    pub(in crate::wire) id: String,
    /// The path that it was sent to.
    pub(in crate::wire) path: String,
    /// What was sent.
    pub(in crate::wire) body: Value,
}

impl Recording {
    fn read(path: &std::path::Path, wire: Wire) -> Option<Self> {
        let text = std::fs::read_to_string(path).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let is_meant = value["api"] == wire.label() && value["request"]["body"].is_object();
        is_meant.then(|| Self {
            id: value["id"].as_str().unwrap().to_owned(),
            path: value["request"]["path"].as_str().unwrap().to_owned(),
            body: value["request"]["body"].clone(),
        })
    }
}

/// The recorded requests of a wire, by id; none, said plainly, when they are absent.
#[expect(clippy::disallowed_methods, reason = "tests are told by the environment where it is")]
#[expect(clippy::print_stderr, reason = "a test that checks nothing must say so")]
pub(in crate::wire) fn recordings(wire: Wire) -> Vec<Recording> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared");
    let root = std::env::var("AGENTLING_SHARED").unwrap_or_else(|_| beside.to_owned());
    let folder = PathBuf::from(root).join("data/providers");
    if !folder.exists() {
        eprintln!("skipped: {} is absent", folder.display());
        return Vec::new();
    }
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|ext| ext == "json"));
    let mut all: Vec<_> = files.filter_map(|path| Recording::read(&path, wire)).collect();
    all.sort_by(|one, other| one.id.cmp(&other.id));
    all
}
