//! Reading JSON that others wrote: every field is optional, and a number may come as a float.

use serde_json::Value;

/// Parses a body. Unpaired surrogate escapes, which JSON lets through and Unicode does not, become
/// U+FFFD instead of making the whole body unreadable.
pub fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(bytes).or_else(|error| {
        let repaired = replace_lone_surrogates(bytes);
        if repaired == bytes { Err(error) } else { serde_json::from_slice(&repaired) }
    })
}

/// A member that is a text and not empty.
pub fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str().filter(|text| !text.is_empty())
}

/// A member that is there: not null, not empty, not `false`.
pub fn present<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    value.get(key).filter(|member| {
        let empty = member.as_str().is_some_and(str::is_empty)
            || member.as_array().is_some_and(Vec::is_empty)
            || member.as_object().is_some_and(serde_json::Map::is_empty);
        !(member.is_null() || empty || **member == Value::Bool(false))
    })
}

/// The items of a member that is a list; none when it is anything else.
pub fn items<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The most that a count can say: beyond it is no count of tokens, and sums of such counts would not
/// fit where they are kept.
const MOST: u64 = 1_000_000_000_000;

/// A member that counts something; `None` for what cannot be a count.
pub fn count(value: &Value, key: &str) -> Option<u64> {
    let member = value.get(key)?;
    let read = || crate::wire::error::millis(&member.as_f64()?.to_string(), 1.0);
    member.as_u64().or_else(read).filter(|count| *count <= MOST)
}

/// A member that is a text or a number, as text.
pub fn label(value: &Value, key: &str) -> Option<String> {
    let member = present(value, key)?;
    member.as_str().map(str::to_owned).or_else(|| member.as_i64().map(|number| number.to_string()))
}

/// Text that can be stored: Postgres has no U+0000.
pub fn storable(text: &str) -> String {
    text.replace('\0', "\u{FFFD}")
}

/// A value that can be stored.
pub fn storable_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(storable(text)),
        Value::Array(list) => list.iter().map(storable_value).collect(),
        Value::Object(members) => {
            let members = members.iter();
            members.map(|(name, value)| (storable(name), storable_value(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Whether there is nothing in a value: what servers send that fill in every optional member.
pub fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.iter().all(is_hollow),
        Value::Object(members) => members.values().all(is_hollow),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Replaces each `\uD800`–`\uDFFF` escape that is not half of a pair by `\ufffd`.
fn replace_lone_surrogates(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, tail)) = rest.split_first() {
        let (keep, next) = match (first, surrogate(rest)) {
            (_, Some(Half::High)) if is_low(rest.get(6..)) => (rest.get(..12), rest.get(12..)),
            (_, Some(_)) => (Some(b"\\ufffd".as_slice()), rest.get(6..)),
            // An escaped backslash is skipped whole, so that `\\ud800` stays what it is.
            (b'\\', None) => (rest.get(..2), rest.get(2..)),
            (_, None) => (rest.get(..1), Some(tail)),
        };
        out.extend_from_slice(keep.unwrap_or(rest));
        rest = next.unwrap_or_default();
    }
    out
}

enum Half {
    High,
    Low,
}

fn is_low(bytes: Option<&[u8]>) -> bool {
    matches!(bytes.and_then(surrogate), Some(Half::Low))
}

fn surrogate(bytes: &[u8]) -> Option<Half> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    let unit = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    match unit {
        0xD800..=0xDBFF => Some(Half::High),
        0xDC00..=0xDFFF => Some(Half::Low),
        0..=0xD7FF | 0xE000..=0xFFFF => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpaired_surrogates_are_replaced_and_everything_else_is_kept() {
        for (body, read) in [
            (r#""\ud83d""#, "\u{FFFD}"),
            (r#""a\udE00b""#, "a\u{FFFD}b"),
            (r#""\ud83d\ud83d\ude00""#, "\u{FFFD}\u{1F600}"),
            (r#""\\ud83d \ud800\n""#, "\\ud83d \u{FFFD}\n"),
            (r#""\ud83d\ude00""#, "\u{1F600}"),
        ] {
            assert_eq!(parse(body.as_bytes()).unwrap(), Value::from(read), "{body}");
        }
        assert!(parse(b"{\"a\":").is_err());
        assert!(parse(br#""\ud83"#).is_err());
    }

    #[test]
    fn counts_are_read_from_integers_and_floats_and_nothing_else() {
        let value =
            serde_json::json!({"i": 3, "f": 4.0, "n": null, "t": "5", "m": -1, "b": u64::MAX});
        let read: Vec<_> =
            ["i", "f", "n", "t", "m", "x", "b"].map(|key| count(&value, key)).to_vec();
        assert_eq!(read, [Some(3), Some(4), None, None, None, None, None]);
    }
}
