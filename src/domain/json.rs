//! JSON as it is spelt: what a parsed value cannot keep of a number or of a name that comes twice.

/// The compact form of JSON text.
///
/// There is no white space between its tokens, and strings are as the service writes them. Numbers stay as they are spelt, and members stay in their order, repeated ones
/// included. The text has been found to be JSON before.
pub fn spelt(text: &str) -> String {
    tokens(text).fold(String::with_capacity(text.len()), |mut compact, token| {
        compact.push_str(&plain_string(token).unwrap_or_else(|| token.to_owned()));
        compact
    })
}

/// How many members the objects of JSON text have, repeated ones included.
pub fn members(text: &str) -> usize {
    tokens(text)
        .filter(|token| !token.starts_with('"'))
        .map(|token| token.matches(':').count())
        .sum()
}

/// A string without the escapes that it does not need; `None` when there is nothing to change.
fn plain_string(token: &str) -> Option<String> {
    if !token.contains('\\') {
        return None;
    }
    let text: String = serde_json::from_str(token).ok()?;
    serde_json::to_string(&text).ok()
}

const WHITE_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// Each string as a token of its own, and what stands between strings and white space.
fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(WHITE_SPACE);
        let end = if rest.starts_with('"') { string_end(rest) } else { plain_end(rest) };
        let (token, tail) = rest.split_at_checked(end)?;
        rest = tail;
        (!token.is_empty()).then_some(token)
    })
}

fn plain_end(text: &str) -> usize {
    text.find(|c| c == '"' || WHITE_SPACE.contains(&c)).unwrap_or(text.len())
}

fn string_end(text: &str) -> usize {
    let mut escaped = false;
    let quote = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    quote.map_or(text.len(), |at| at.saturating_add(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_members_stay_as_they_are_spelt() {
        for (text, compact) in [
            (" 1.10 ", "1.10"),
            ("[ 12345678901234567890123,\n-0, 1E+2 ]", "[12345678901234567890123,-0,1E+2]"),
            (r#"{ "b" : 1, "a" : {"b": 2, "b": 3} }"#, r#"{"b":1,"a":{"b":2,"b":3}}"#),
            ("", ""),
        ] {
            assert_eq!(spelt(text), compact, "{text}");
        }
    }

    #[test]
    fn strings_keep_their_characters_and_lose_needless_escapes() {
        for (text, compact) in [
            (r#"" a : 1.0 ""#, r#"" a : 1.0 ""#),
            (r#"["\\", "x"]"#, r#"["\\","x"]"#),
            (r#"{"a\"b" : "c\\\" d"}"#, r#"{"a\"b":"c\\\" d"}"#),
            (r#""caf\u00e9 \/ \n""#, r#""café / \n""#),
        ] {
            assert_eq!(spelt(text), compact, "{text}");
        }
    }

    #[test]
    fn every_member_counts_and_no_colon_of_a_string_does() {
        assert_eq!(members(r#"{"a:": ":", "a:": [{"b" : 1}, {}]}"#), 3);
        assert_eq!(members("[1, 2]"), 0);
    }
}
