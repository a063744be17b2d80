//! The files of the house, and their tokens.

use std::path::Path;
use std::sync::OnceLock;

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

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
        let tokens = if path.ends_with(".rs") { tokens(path, text) } else { Vec::new() };
        Self { path: path.to_owned(), text: text.to_owned(), tokens }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
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

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    /// A string or byte string; the token's text is its value.
    Literal,
    /// Punctuation or a bracket.
    Mark,
}

/// A token and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) line: usize,
    /// Whether it is in test code.
    pub(crate) in_test: bool,
    /// Whether it is in a doc comment.
    pub(crate) in_doc: bool,
    /// How many inline modules it is in.
    pub(crate) inline: usize,
}

impl Token {
    pub(crate) fn is(&self, text: &str) -> bool {
        self.kind != Kind::Literal && self.text == text
    }

    pub(crate) fn is_word(&self) -> bool {
        self.kind == Kind::Word
    }
}

/// The word that starts at `at` and the `::` after it.
pub(crate) fn starts_path(tokens: &[Token], at: usize, word: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.is_word() && token.text == word)
        && tokens.get(at + 1).is_some_and(|token| token.is("::"))
        && !is_continued(tokens, at)
}

/// Whether the token at `at` goes on with a path or a field.
pub(crate) fn is_continued(tokens: &[Token], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| tokens.get(before));
    before.is_some_and(|token| token.is("::") || token.is("."))
}

/// The first words of everything that a path which goes on at `at` leads to: `b` of `a::b`, `b` and
/// `c` of `a::{b, c::d}`. `at` is the token after the `::`.
pub(crate) fn next_words(tokens: &[Token], at: usize) -> Vec<&Token> {
    let Some(first) = tokens.get(at) else { return Vec::new() };
    if !first.is("{") {
        return vec![first];
    }
    let mut level = 0_usize;
    let mut words = Vec::new();
    let mut fresh = true;
    for token in tokens.iter().skip(at) {
        match token.text.as_str() {
            "{" if !token.is_word() => level += 1,
            "}" if !token.is_word() => level -= 1,
            "," if level == 1 => fresh = true,
            _ if level == 1 && fresh => {
                words.push(token);
                fresh = false;
            }
            _ => {}
        }
        if level == 0 {
            break;
        }
    }
    words
}

/// Whether a whole file is test code.
pub(crate) fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs" || part == "benches")
}

fn tokens(path: &str, text: &str) -> Vec<Token> {
    let stream: TokenStream =
        text.parse().unwrap_or_else(|error| panic!("{path} is not Rust: {error}"));
    let mut walk = Walk { tokens: Vec::new(), in_doc: false, inline: 0 };
    walk.stream(stream, is_test_path(path));
    walk.tokens
}

struct Walk {
    tokens: Vec<Token>,
    in_doc: bool,
    inline: usize,
}

impl Walk {
    fn push(&mut self, kind: Kind, text: String, line: usize, in_test: bool) {
        let (in_doc, inline) = (self.in_doc, self.inline);
        self.tokens.push(Token { kind, text, line, in_test, in_doc, inline });
    }

    fn stream(&mut self, stream: TokenStream, in_test: bool) {
        // From `#[cfg(test)]` to the end of the item it stands on.
        let mut gated = false;
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        for (at, tree) in trees.iter().enumerate() {
            let line = tree.span().start().line;
            let test = in_test || gated;
            match tree {
                TokenTree::Group(group) => {
                    let attribute = follows(&trees, at, "#") || follows_bang(&trees, at);
                    if attribute && gates_tests(group) {
                        gated = true;
                    }
                    self.group(group, test || gated, attribute, opens_module(&trees, at));
                    gated = gated && group.delimiter() != Delimiter::Brace;
                }
                TokenTree::Ident(ident) => self.push(Kind::Word, plain(ident), line, test),
                TokenTree::Punct(punct) => {
                    self.punct(punct.as_char(), line, test);
                    gated = gated && punct.as_char() != ';';
                }
                TokenTree::Literal(literal) => {
                    let value = literal_value(&literal.to_string());
                    let kind = if value.is_some() { Kind::Literal } else { Kind::Mark };
                    self.push(kind, value.unwrap_or_else(|| literal.to_string()), line, test);
                }
            }
        }
    }

    /// A mark; two colons become one token.
    fn punct(&mut self, mark: char, line: usize, in_test: bool) {
        if mark == ':'
            && let Some(last) = self.tokens.last_mut().filter(|last| last.is(":"))
        {
            last.text.push(':');
            return;
        }
        self.push(Kind::Mark, mark.to_string(), line, in_test);
    }

    fn group(&mut self, group: &Group, in_test: bool, attribute: bool, module: bool) {
        let (open, close) = match group.delimiter() {
            Delimiter::Brace => ("{", "}"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::None => ("", ""),
        };
        let was_doc = self.in_doc;
        self.in_doc = was_doc || (attribute && first_word(group).is_some_and(|word| word == "doc"));
        self.inline += usize::from(module);
        self.push(Kind::Mark, open.to_owned(), group.span_open().start().line, in_test);
        self.stream(group.stream(), in_test);
        self.push(Kind::Mark, close.to_owned(), group.span_close().start().line, in_test);
        self.inline -= usize::from(module);
        self.in_doc = was_doc;
    }
}

fn plain(ident: &Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}

fn follows(trees: &[TokenTree], at: usize, mark: &str) -> bool {
    at.checked_sub(1).and_then(|before| trees.get(before)).is_some_and(|t| t.to_string() == mark)
}

fn follows_bang(trees: &[TokenTree], at: usize) -> bool {
    follows(trees, at, "!") && at > 1 && follows(trees, at - 1, "#")
}

fn opens_module(trees: &[TokenTree], at: usize) -> bool {
    at > 1
        && matches!(trees.get(at - 1), Some(TokenTree::Ident(_)))
        && follows(trees, at - 1, "mod")
}

fn first_word(group: &Group) -> Option<String> {
    match group.stream().into_iter().next()? {
        TokenTree::Ident(word) => Some(word.to_string()),
        _ => None,
    }
}

fn gates_tests(group: &Group) -> bool {
    let text: String = group.stream().to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// The value of a string or byte string literal.
fn literal_value(literal: &str) -> Option<String> {
    match syn::parse_str::<syn::Lit>(literal).ok()? {
        syn::Lit::Str(text) => Some(text.value()),
        syn::Lit::ByteStr(bytes) => Some(String::from_utf8_lossy(&bytes.value()).into_owned()),
        syn::Lit::CStr(text) => Some(text.value().to_string_lossy().into_owned()),
        _ => None,
    }
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
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        if EXTENSIONS.contains(&extension) || NAMES.contains(&name.as_str()) {
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
    assert!(doc.iter().any(|token| token.kind == Kind::Literal && token.text == " doc"));
    assert_eq!((file.layer(), file.depth()), (Some("x"), 2));
}

#[test]
fn the_house_is_not_empty() {
    assert!(rust().any(|file| file.path == "src/lib.rs"));
    assert!(rust().any(|file| file.path == "tests/tidy/scan.rs"));
}
