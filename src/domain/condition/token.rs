//! The words of a condition, each with its column.

use serde_json::Value;

use super::parse::ConditionError;

/// What ends a pointer and a word.
const MARKS: &[char] = &['(', ')', '[', ']', ',', '=', '!', '<', '>', '"', '\''];

/// The first name of a path of plain names.
const ROOT: &str = "arguments.";

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A bracket, a comma, a comparison or a word of the language.
    Word(&'static str),
    /// A JSON pointer.
    Place(String),
    /// A JSON scalar.
    Literal(Value),
}

/// Words that are found as they are. Longer ones come before those that they begin with.
const SIGNS: &[&str] = &["==", "!=", "<=", ">=", "<", ">", "(", ")", "[", "]", ","];
const WORDS: &[&str] = &["and", "or", "not", "in", "contains", "starts_with", "exists"];

/// The tokens of a text, with their columns.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, ConditionError> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let column = 1 + text.chars().count() - rest.chars().count();
        if rest.is_empty() {
            return Ok(found);
        }
        let (token, tail) = token(rest).map_err(|expected| ConditionError { column, expected })?;
        found.push((column, token));
        rest = tail;
    }
}

fn token(text: &str) -> Result<(Token, &str), &'static str> {
    let sign = SIGNS.iter().find_map(|sign| Some((*sign, text.strip_prefix(sign)?)));
    if let Some((sign, tail)) = sign {
        return Ok((Token::Word(sign), tail));
    }
    if text.starts_with(['"', '\'']) {
        return quoted(text).ok_or("a text that ends");
    }
    let end = text.find(|c: char| c.is_whitespace() || MARKS.contains(&c)).unwrap_or(text.len());
    let (word, tail) = text.split_at_checked(end).unwrap_or((text, ""));
    Ok((plain(word)?, tail))
}

/// A text in quotes: double ones as in JSON, or single ones with nothing escaped in them.
fn quoted(text: &str) -> Option<(Token, &str)> {
    if let Some(text) = text.strip_prefix('\'') {
        let (text, tail) = text.split_once('\'')?;
        return Some((Token::Literal(Value::from(text)), tail));
    }
    let mut is_escaped = true;
    let end = text.find(|c| {
        let ends = c == '"' && !is_escaped;
        // The first quote opens the text.
        is_escaped = c == '\\' && !is_escaped;
        ends
    })?;
    let (text, tail) = text.split_at_checked(end + 1)?;
    Some((Token::Literal(Value::String(serde_json::from_str(text).ok()?)), tail))
}

fn plain(word: &str) -> Result<Token, &'static str> {
    if let Some(known) = WORDS.iter().find(|known| **known == word) {
        return Ok(Token::Word(known));
    }
    if word.starts_with('/') {
        let sound = word.split('~').skip(1).all(|tail| tail.starts_with(['0', '1']));
        let place = sound.then(|| Token::Place(word.to_owned()));
        return place.ok_or("a JSON pointer, in which `~` is written `~0`");
    }
    if let Some(path) = word.strip_prefix(ROOT) {
        return Ok(Token::Place(format!("/{}", path.replace('~', "~0").replace(['.'], "/"))));
    }
    let literal = serde_json::from_str(word).ok().filter(|value: &Value| !value.is_object());
    literal.map(Token::Literal).ok_or("a JSON pointer, `arguments.…`, a literal or an operator")
}
