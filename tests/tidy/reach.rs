//! Every Rust file is part of a crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::scan::{self, File};
use crate::{Finding, bites, hold};

/// Whether a file is where the compiler starts.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(
        parts.as_slice(),
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["tests" | "benches" | "examples", _]
            | ["tests" | "benches" | "examples", _, "main.rs"]
            | ["fuzz", "fuzz_targets", _]
    )
}

/// Files that no `mod` leads to.
fn check(files: &[&File]) -> Vec<Finding> {
    let by_path: BTreeMap<&str, &File> =
        files.iter().map(|file| (file.path.as_str(), *file)).collect();
    let mut reached: BTreeSet<String> = BTreeSet::new();
    let mut open: Vec<String> =
        by_path.keys().filter(|path| is_root(path)).map(|path| (*path).to_owned()).collect();
    while let Some(path) = open.pop() {
        let Some(file) = by_path.get(path.as_str()) else { continue };
        if reached.insert(path) {
            open.extend(children(file));
        }
    }
    by_path
        .keys()
        .filter(|path| !reached.contains(**path))
        .map(|path| Finding::new(path, 1, "no `mod` leads here", "declare it, or delete it"))
        .collect()
}

/// Where the modules that a file declares may lie.
fn children(file: &File) -> Vec<String> {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let stem = name.trim_end_matches(".rs");
    let flat = is_root(&file.path) || stem == "mod";
    let base = if flat { folder.to_owned() } else { format!("{folder}/{stem}") };
    let syntax = syn::parse_file(&file.text).unwrap();
    let mut paths = Vec::new();
    modules(&syntax.items, &base, &mut paths);
    paths
}

fn modules(items: &[syn::Item], base: &str, paths: &mut Vec<String>) {
    for item in items {
        let syn::Item::Mod(module) = item else { continue };
        let below = format!("{base}/{}", module.ident);
        match &module.content {
            Some((_, items)) => modules(items, &below, paths),
            None => paths.extend([format!("{below}.rs"), format!("{below}/mod.rs")]),
        }
    }
}

#[test]
fn every_file_is_part_of_a_crate() {
    hold(check(&scan::rust().collect::<Vec<_>>()));
}

#[test]
fn a_file_that_nobody_declares_is_found() {
    let files = [
        File::new("src/lib.rs", "mod a;\nmod b;"),
        File::new("src/a.rs", "mod inner { mod deep; }"),
        File::new("src/a/inner/deep.rs", ""),
        File::new("src/b/mod.rs", "// mod lost;\nmod c;"),
        File::new("src/b/c.rs", ""),
        File::new("src/b/lost.rs", ""),
        File::new("tests/it/main.rs", "mod x;"),
        File::new("tests/it/x.rs", ""),
        File::new("tests/it/y.rs", ""),
    ];
    let findings = check(&files.iter().collect::<Vec<_>>());
    bites(&findings, "no `mod` leads here", &[1, 1]);
    let paths: Vec<&str> = findings.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(paths, ["src/b/lost.rs", "tests/it/y.rs"]);
}
