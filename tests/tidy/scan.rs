//! The files of the house, and their tokens.

use std::path::Path;
use std::sync::OnceLock;

use crate::tokens::{self, Token};

/// A file of the house, by its path from the crate root.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) tokens: Vec<Token>,
}

impl File {
    /// A file with its tokens; text that is not Rust has none.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let tokens = if extension(path) == "rs" {
            tokens::tokens(path, text, is_test_path(path))
        } else {
            Vec::new()
        };
        Self { path: path.to_owned(), text: text.to_owned(), tokens }
    }

    pub(crate) fn is_rust(&self) -> bool {
        extension(&self.path) == "rs"
    }

    /// The layer of a file under `src`: its folder, or its own name at the root.
    pub(crate) fn layer(&self) -> Option<&str> {
        let path = self.path.strip_prefix("src/")?;
        Some(path.split_once('/').map_or_else(|| path.trim_end_matches(".rs"), |(layer, _)| layer))
    }

    /// How many modules the file lies below the crate root.
    pub(crate) fn depth(&self) -> usize {
        let path = self.path.trim_start_matches("src/").trim_end_matches(".rs");
        path.split('/').filter(|name| !["mod", "lib", "main"].contains(name)).count()
    }
}

/// What follows the last dot of a path.
pub(crate) fn extension(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// Whether a whole file is test code.
pub(crate) fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs" || part == "benches")
}

/// Every file of the house that somebody wrote.
pub(crate) fn house() -> &'static [File] {
    static HOUSE: OnceLock<Vec<File>> = OnceLock::new();
    HOUSE.get_or_init(|| {
        let mut files = Vec::new();
        collect(Path::new(env!("CARGO_MANIFEST_DIR")), "", &mut files);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    })
}

/// The Rust files of the house.
pub(crate) fn rust() -> impl Iterator<Item = &'static File> {
    house().iter().filter(|file| file.is_rust())
}

const EXTENSIONS: [&str; 10] =
    ["rs", "sql", "toml", "md", "yml", "yaml", "js", "css", "html", "sh"];
const NAMES: [&str; 3] = ["Makefile", "Dockerfile", "run"];

fn collect(root: &Path, below: &str, files: &mut Vec<File>) {
    for entry in std::fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let hidden = name.starts_with('.') && name != ".ci";
        if entry.file_type().unwrap().is_dir() {
            if !hidden && name != "target" && path != "tests/data" {
                collect(root, &path, files);
            }
            continue;
        }
        if EXTENSIONS.contains(&extension(&name)) || NAMES.contains(&name.as_str()) {
            files.push(File::new(&path, &std::fs::read_to_string(entry.path()).unwrap()));
        }
    }
}

#[test]
fn test_code_docs_and_inline_modules_are_told_apart() {
    let text = "//! doc\nfn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n";
    let file = File::new("src/x/y.rs", text);
    let marks: Vec<(&str, bool, usize)> = file
        .tokens
        .iter()
        .filter(|token| ["a", "b", "c"].contains(&token.text.as_str()))
        .map(|token| (token.text.as_str(), token.in_test, token.inline))
        .collect();
    assert_eq!(marks, [("a", false, 0), ("b", true, 1), ("c", false, 0)]);
    let doc: Vec<&Token> = file.tokens.iter().filter(|token| token.in_doc).collect();
    assert!(doc.iter().any(|token| token.kind == tokens::Kind::Literal && token.text == " doc"));
    assert_eq!((file.layer(), file.depth()), (Some("x"), 2));
}

#[test]
fn the_house_is_not_empty() {
    assert!(rust().any(|file| file.path == "src/lib.rs"));
    assert!(rust().any(|file| file.path == "tests/tidy/scan.rs"));
}
