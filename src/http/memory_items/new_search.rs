//! What is looked for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::put::check_vector;
use crate::domain::limits::{ITEM_FILTERS, ITEM_QUERY_CHARS};
use crate::domain::memory::Finding;
use crate::domain::memory_item::{ItemSearch, Prefix};
use crate::error::AgentlingError;
use crate::http::extract::Checks;

/// What is looked for among items. What is not said does not narrow the search.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({"namespace_prefix": ["users", "42"], "filter": {"/kind": "address"},
    "query": "\"green street\" or park", "limit": 10})))]
pub(super) struct NewMemorySearch {
    /// What the items' namespaces begin with, 0–8 parts.
    #[serde(default)]
    namespace_prefix: Prefix,
    /// What members of the values have to be, each by an RFC 6901 JSON pointer; at most 16. Numbers are equal
    /// whatever their spelling, and a member that is not there equals nothing, not even null.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, Value>)]
    filter: BTreeMap<String, Value>,
    /// Words that have to be in the strings of the value or in the key: all of them, `"in a row"`, one `or` the
    /// other, `-without`. They are compared as they are spelt, upper and lower case alike. At most 1,024
    /// characters.
    #[serde(default)]
    #[schema(max_length = 1024)]
    query: Option<String>,
    /// What the embedding of the items has to be near to, 1–4,096 numbers.
    #[serde(default)]
    #[schema(min_items = 1, max_items = 4096)]
    vector: Option<Vec<f32>>,
    /// How many entries at most, 1–200; 20 by default.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 200)]
    pub(super) limit: Option<u32>,
    /// Where to go on: the `next_cursor` of the page before, with the same search.
    #[serde(default)]
    pub(super) cursor: Option<String>,
}

impl NewMemorySearch {
    /// What a cursor belongs to.
    pub(super) fn narrows(&self) -> impl Serialize {
        (&self.namespace_prefix, &self.filter, &self.query, &self.vector)
    }

    /// The search, if it can be made.
    pub(super) fn checked(self) -> Result<ItemSearch, AgentlingError> {
        let mut checks = Checks::new();
        let message = "must have at most 16 members";
        checks.require(self.filter.len() <= ITEM_FILTERS, "/filter", "too_many", message);
        let mut filter = Vec::new();
        for (pointer, value) in self.filter {
            match path_of(&pointer) {
                Some(path) => filter.push((path, value)),
                None => checks.add(no_pointer(&pointer)),
            }
        }
        if let Some(query) = &self.query {
            checks.not_blank("/query", query);
            checks.length("/query", query, 1..=ITEM_QUERY_CHARS);
        }
        check_vector(&mut checks, "/vector", self.vector.as_deref());
        checks.finish()?;
        let (prefix, query, vector) = (self.namespace_prefix, self.query, self.vector);
        Ok(ItemSearch { prefix, only_here: false, filter, query, vector })
    }
}

fn no_pointer(pointer: &str) -> Finding {
    let place = format!("/filter/{}", pointer.replace('~', "~0").replace('/', "~1"));
    Finding::new(place, "invalid_value", "must be an RFC 6901 JSON pointer, such as /address/city")
}

/// What leads to a member, one step after the other.
fn path_of(pointer: &str) -> Option<Vec<String>> {
    if pointer.is_empty() {
        return Some(Vec::new());
    }
    pointer.strip_prefix('/')?.split('/').map(step_of).collect()
}

/// One step. Those that a database would take for a place in a list though they are none are refused: `-1`
/// is the last place for it, and `01` the second.
fn step_of(token: &str) -> Option<String> {
    let escapes_fit = token.split('~').skip(1).all(|tail| tail.starts_with(['0', '1']));
    let digits = token.trim_start().trim_start_matches(['+', '-']);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_place =
        token == "0" || token.bytes().next().is_some_and(|byte| (b'1'..=b'9').contains(&byte));
    (escapes_fit && (!is_number || is_place)).then(|| token.replace("~1", "/").replace("~0", "~"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_a_path_and_what_only_a_database_reads_as_a_place_is_none() {
        let path = |steps: &[&str]| Some(steps.iter().map(|step| (*step).to_owned()).collect());
        for (pointer, steps) in [
            ("", &[][..]),
            ("/", &[""]),
            ("/a/0/b", &["a", "0", "b"]),
            ("/a~1b/~01", &["a/b", "~1"]),
            ("/10", &["10"]),
            ("/-/1a/-x", &["-", "1a", "-x"]),
        ] {
            assert_eq!(path_of(pointer), path(steps), "{pointer}");
        }
        for pointer in ["a", "/-1", "/01", "/+1", "/ 1", "/a~", "/~2", "#/a"] {
            assert_eq!(path_of(pointer), None, "{pointer}");
        }
    }
}
