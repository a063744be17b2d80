//! Values of items.

use serde_json::Value;

use super::super::json::spelt;
use crate::domain::limits::{ITEM_VALUE_BYTES, ITEM_VALUE_DEPTH};

/// JSON text: compact, with members in their order and numbers as they were spelt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextJson(String);

impl TextJson {
    /// Text that was stored, which was judged before it was.
    pub const fn stored(text: String) -> Self {
        Self(text)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A value that can be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemValue {
    /// As it was spelt.
    pub text: TextJson,
    /// As those who look for it compare it: numbers are what a double or 64 bits hold.
    pub json: Value,
}

/// Why a value cannot be stored, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnfitValue {
    /// A JSON pointer into the value.
    pub pointer: String,
    /// A stable code.
    pub code: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl ItemValue {
    /// Reads JSON text.
    ///
    /// # Errors
    /// When it is not JSON, has more than 64 KiB without white space between its tokens, is nested deeper
    /// than 32 levels, or holds U+0000.
    pub fn of(text: &str) -> Result<Self, UnfitValue> {
        let unfit = |code, message: String| UnfitValue { pointer: String::new(), code, message };
        let json: Value = serde_json::from_str(text)
            .map_err(|error| unfit("invalid_value", format!("must be JSON: {error}")))?;
        let text = spelt(text);
        if text.len() > ITEM_VALUE_BYTES {
            let message = format!("must have at most {ITEM_VALUE_BYTES} bytes as compact JSON");
            return Err(unfit("too_large", message));
        }
        check(&json, ITEM_VALUE_DEPTH)?;
        Ok(Self { text: TextJson(text), json })
    }
}

/// Looks at a value with so many levels left.
fn check(value: &Value, levels: usize) -> Result<(), UnfitValue> {
    let is_nested = value.is_array() || value.is_object();
    if is_nested && levels == 0 {
        let message = format!("must be nested {ITEM_VALUE_DEPTH} levels deep at most");
        return Err(UnfitValue { pointer: String::new(), code: "too_deep", message });
    }
    match value {
        Value::String(text) => storable(text),
        Value::Array(items) => items.iter().enumerate().try_for_each(|(index, item)| {
            check(item, levels - 1).map_err(|unfit| within(unfit, &index.to_string()))
        }),
        Value::Object(members) => members.iter().try_for_each(|(key, member)| {
            let found = storable(key).and_then(|()| check(member, levels - 1));
            found.map_err(|unfit| within(unfit, &key.replace('~', "~0").replace('/', "~1")))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn storable(text: &str) -> Result<(), UnfitValue> {
    if !text.contains('\0') {
        return Ok(());
    }
    let message = "U+0000 cannot be stored".to_owned();
    Err(UnfitValue { pointer: String::new(), code: "text_not_storable", message })
}

/// What was found one level further down.
fn within(unfit: UnfitValue, place: &str) -> UnfitValue {
    let pointer = format!("/{}{}", place.replace('\0', "\u{fffd}"), unfit.pointer);
    UnfitValue { pointer, ..unfit }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (String, &'static str) {
        let unfit = ItemValue::of(text).unwrap_err();
        (unfit.pointer, unfit.code)
    }

    #[test]
    fn a_value_keeps_its_spelling_and_has_a_copy_to_compare() {
        let value = ItemValue::of(" { \"b\": 1.10, \"a\": [1e2, -0] } ").unwrap();
        assert_eq!(value.text.as_str(), r#"{"b":1.10,"a":[1e2,-0]}"#);
        assert_eq!(value.json["b"], 1.1);
        for text in ["null", "\"\"", "0", "[]"] {
            assert_eq!(ItemValue::of(text).unwrap().text.as_str(), text);
        }
    }

    #[test]
    fn a_value_is_bounded_in_bytes_and_levels() {
        let text = |n: usize| format!("\"{}\"", "x".repeat(n - 2));
        assert!(ItemValue::of(&text(ITEM_VALUE_BYTES)).is_ok());
        assert_eq!(refused(&text(ITEM_VALUE_BYTES + 1)), (String::new(), "too_large"));
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(ItemValue::of(&nested(ITEM_VALUE_DEPTH)).is_ok());
        assert_eq!(
            refused(&nested(ITEM_VALUE_DEPTH + 1)),
            ("/0".repeat(ITEM_VALUE_DEPTH), "too_deep")
        );
        assert_eq!(refused("{"), (String::new(), "invalid_value"));
    }

    #[test]
    fn a_text_that_cannot_be_stored_is_pointed_at() {
        assert_eq!(
            refused(r#"{"a": [1, {"b/c": "x\u0000"}]}"#),
            ("/a/1/b~1c".into(), "text_not_storable")
        );
        assert_eq!(refused(r#"{"\u0000": 1}"#).1, "text_not_storable");
    }
}
