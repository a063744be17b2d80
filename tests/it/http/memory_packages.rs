//! Documents that the packages of others have written, when the environment names a folder with some.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::send_text;
use crate::support::TestApp;

/// The folder with the documents, or `None`, said plainly, when there is none.
#[expect(clippy::disallowed_methods, reason = "tests are told by the environment where they are")]
#[expect(clippy::print_stderr, reason = "a test that checks nothing must say so")]
fn folder() -> Option<PathBuf> {
    let named = std::env::var("AGENTLING_MEMORY_DOCUMENTS").ok().filter(|path| !path.is_empty());
    if named.is_none() {
        eprintln!("skipped: AGENTLING_MEMORY_DOCUMENTS names no folder with documents");
    }
    named.map(PathBuf::from)
}

/// The documents of a package.
fn documents(folder: &Path, package: &str) -> Vec<(PathBuf, String)> {
    let files = fs::read_dir(folder.join(package)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some()).collect();
    files.sort();
    assert!(files.len() >= 4, "{files:?}");
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

async fn loaded(app: &TestApp, document: &str) -> String {
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    let memory = format!("/v1/threads/{}/memory", thread["id"].as_str().unwrap());
    send_text(app, ("PUT", &memory), "", document).await.expect(200);
    memory
}

/// Lets the package itself read both and compare what it has then.
fn same_to_the_package(folder: &Path, ours: &Path, theirs: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/memory-documents.py");
    let mut command = Command::new(folder.join("venv/bin/python"));
    let done = command.arg(script).arg("--compare").args([ours, theirs]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test]
async fn documents_of_the_original_package_are_the_same_to_it_when_they_come_back() {
    let Some(folder) = folder() else { return };
    let app = TestApp::start().await;
    let back = tempfile::tempdir().unwrap();
    for (path, document) in documents(&folder, "agentling") {
        let memory = loaded(&app, &document).await;
        let exported = app.get(&format!("{memory}?version=1")).await;
        let value = exported.clone().expect(200);
        assert_eq!(value, serde_json::from_str::<Value>(&document).unwrap(), "{path:?}");
        let file = back.path().join(path.file_name().unwrap());
        fs::write(&file, &exported.text).unwrap();
        same_to_the_package(&folder, &path, &file);
        // By way of version 2 nothing is lost either.
        let other = loaded(&app, &app.get(&memory).await.text).await;
        assert_eq!(app.get(&format!("{other}?version=1")).await.text, exported.text);
    }
}

#[tokio::test]
async fn documents_of_pydantic_ai_load_and_their_exports_are_read_by_the_original_package() {
    let Some(folder) = folder() else { return };
    let app = TestApp::start().await;
    let back = tempfile::tempdir().unwrap();
    for (path, document) in documents(&folder, "pydantic_ai") {
        let would = send_text(&app, ("POST", "/v1/memory/validate"), "", &document).await;
        let would = would.expect(200);
        assert_eq!(would["format"], "pydantic_ai", "{path:?}");
        let memory = loaded(&app, &document).await;
        let exported = app.get(&memory).await;
        assert_eq!(exported.json()["steps"].as_array().unwrap().len(), would["steps"]);
        let other = loaded(&app, &exported.text).await;
        assert_eq!(app.get(&other).await.json()["steps"], exported.json()["steps"], "{path:?}");
        let old = app.get(&format!("{memory}?version=1&lossy=true")).await;
        let file = back.path().join(path.file_name().unwrap());
        fs::write(&file, &old.text).unwrap();
        same_to_the_package(&folder, &file, &file);
    }
}
