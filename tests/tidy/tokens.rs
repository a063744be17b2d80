//! Rust text as tokens that know where they stand.

use proc_macro2::{Delimiter, Group, Ident, Literal, TokenStream, TokenTree};

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

/// The tokens of a file.
pub(crate) fn tokens(path: &str, text: &str, in_test: bool) -> Vec<Token> {
    let stream: TokenStream =
        text.parse().unwrap_or_else(|error| panic!("{path} is not Rust: {error}"));
    let mut walk = Walk { tokens: Vec::new(), in_doc: false, inline: 0 };
    walk.stream(stream, in_test);
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
            let attribute = follows(&trees, at, "#") || follows_bang(&trees, at);
            gated |= attribute && gates_tests(tree);
            let test = in_test || gated;
            match tree {
                TokenTree::Group(group) => {
                    self.group(group, test, attribute, opens_module(&trees, at));
                }
                TokenTree::Ident(ident) => self.push(Kind::Word, plain(ident), line, test),
                TokenTree::Punct(punct) => self.punct(punct.as_char(), line, test),
                TokenTree::Literal(literal) => self.literal(literal, line, test),
            }
            gated &= !ends_item(tree);
        }
    }

    fn literal(&mut self, literal: &Literal, line: usize, in_test: bool) {
        let text = literal.to_string();
        match literal_value(&text) {
            Some(value) => self.push(Kind::Literal, value, line, in_test),
            None => self.push(Kind::Mark, text, line, in_test),
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

/// Whether an item ends with a tree: with its braces or a semicolon.
fn ends_item(tree: &TokenTree) -> bool {
    match tree {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Ident(_) | TokenTree::Literal(_) => false,
    }
}

fn gates_tests(tree: &TokenTree) -> bool {
    let TokenTree::Group(group) = tree else { return false };
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
