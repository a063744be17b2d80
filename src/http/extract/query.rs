//! Query parameters: each known, each given once, each readable.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use chrono::{DateTime, Utc};
use indexmap::IndexMap;
use serde::de::value::{
    MapAccessDeserializer, MapDeserializer, StrDeserializer, StringDeserializer,
};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer as _, MapAccess,
    Visitor,
};
use serde::{Deserialize, Serialize, forward_to_deserialize_any};
use utoipa::IntoParams;

use crate::domain::agent::Metadata;
use crate::domain::memory::Finding;
use crate::domain::page::ListFilter;
use crate::http::problem::{Problem, ProblemKind};

/// The parameters of a query, as a struct with `deny_unknown_fields` and optional fields.
///
/// Parameters named `metadata.{key}` arrive as a map in the field `metadata`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query<T>(pub T);

/// Which page of a list without filters is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct PageParams {
    /// How many entries at most, 1–200; 20 by default.
    #[serde(default)]
    pub limit: Option<u32>,
    /// Where to go on: the `next_cursor` of the page before.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// Which page of a list of resources is wanted. `metadata.{key}=value` narrows it to those that have
/// the label.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct ListParams {
    /// How many entries at most, 1–200; 20 by default.
    #[serde(default, skip_serializing)]
    pub limit: Option<u32>,
    /// Where to go on: the `next_cursor` of the page before.
    #[serde(default, skip_serializing)]
    pub cursor: Option<String>,
    /// Only those created after this moment.
    #[serde(default)]
    pub created_after: Option<DateTime<Utc>>,
    /// Only those created before this moment.
    #[serde(default)]
    pub created_before: Option<DateTime<Utc>>,
    #[serde(default)]
    #[param(ignore)]
    metadata: Metadata,
}

impl ListParams {
    /// What narrows the list.
    pub fn filter(&self) -> Result<ListFilter, Problem> {
        in_order(ListFilter {
            metadata: self.metadata.clone(),
            created_after: self.created_after,
            created_before: self.created_before,
        })
    }
}

/// A filter, unless its times are reversed: the empty list would hide the mistake.
pub fn in_order(filter: ListFilter) -> Result<ListFilter, Problem> {
    match (filter.created_after, filter.created_before) {
        (Some(after), Some(before)) if after > before => {
            let message = "must not be before `created_after`";
            let finding = Finding::new("created_before", "out_of_range", message);
            Err(Problem::with_errors(ProblemKind::InvalidParameter, vec![finding]))
        }
        _ => Ok(filter),
    }
}

const GROUP: &str = "metadata";

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        decode(parts.uri.query().unwrap_or_default())
            .map(Self)
            .map_err(|errors| Problem::with_errors(ProblemKind::InvalidParameter, errors))
    }
}

/// Decodes a query, or says everything that is wrong with it.
fn decode<T: DeserializeOwned>(query: &str) -> Result<T, Vec<Finding>> {
    let mut found = Vec::new();
    let mut params = collect(query, &mut found);
    loop {
        let pairs = Pairs { params: params.values(), current: None };
        match T::deserialize(MapAccessDeserializer::new(pairs)) {
            Ok(decoded) if found.is_empty() => return Ok(decoded),
            Ok(_) => return Err(found),
            Err(fault) => {
                // Without the parameter at fault the next one comes to light, and it is missed itself.
                let known = params.shift_remove(&fault.name).is_some();
                if !known && found.iter().any(|finding| finding.pointer == fault.name) {
                    return Err(found);
                }
                found.push(fault.finding());
                if !known {
                    return Err(found);
                }
            }
        }
    }
}

/// The parameters by name; repeated ones are noted.
fn collect(query: &str, found: &mut Vec<Finding>) -> IndexMap<String, Param> {
    let mut params = IndexMap::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let (field, key) = match name.split_once('.') {
            Some((GROUP, key)) => (GROUP, Some(key)),
            _ => (name.as_ref(), None),
        };
        if name == GROUP || name.strip_suffix('.') == Some(GROUP) {
            let message = "is not known; a label is asked for as `metadata.{key}`";
            found.push(Finding::new(&*name, "unknown_parameter", message));
            continue;
        }
        if field == GROUP && (name.contains('\0') || value.contains('\0')) {
            found.push(Finding::new(
                "",
                "text_not_storable",
                "U+0000 cannot be stored or looked for",
            ));
            continue;
        }
        let param = params.entry(field.to_owned()).or_insert_with(|| Param::new(field));
        let slot = key.unwrap_or_default().to_owned();
        if param.values.insert(slot, value.into_owned()).is_some() {
            found.push(Finding::new(&*name, "repeated", "may be given once"));
        }
    }
    params
}

/// What was given under one name: one value under the empty key, or a group of named ones.
#[derive(Debug, Clone)]
struct Param {
    name: String,
    values: IndexMap<String, String>,
}

impl Param {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), values: IndexMap::new() }
    }

    fn text(&self) -> &str {
        self.values.get("").map_or("", String::as_str)
    }

    fn visit<'de, N: std::str::FromStr, V: Visitor<'de>>(
        &self,
        expected: &str,
        visit: impl FnOnce(N) -> Result<V::Value, Fault>,
    ) -> Result<V::Value, Fault> {
        let value = self.text().parse().map_err(|_| Fault::custom(expected));
        value.and_then(visit)
    }
}

/// What is wrong with one parameter.
#[derive(Debug)]
struct Fault {
    name: String,
    code: &'static str,
    message: String,
}

impl Fault {
    fn at(mut self, name: &str) -> Self {
        if self.name.is_empty() {
            name.clone_into(&mut self.name);
        }
        self
    }

    fn finding(self) -> Finding {
        Finding::new(self.name, self.code, self.message)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self { name: String::new(), code: "invalid_value", message: message.to_string() }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let message = format!("is not a parameter here; known are: {}", expected.join(", "));
        Self { name: field.to_owned(), code: "unknown_parameter", message }
    }

    fn missing_field(field: &'static str) -> Self {
        Self { name: field.to_owned(), code: "missing", message: "is missing".to_owned() }
    }

    fn invalid_value(_: serde::de::Unexpected<'_>, expected: &dyn serde::de::Expected) -> Self {
        Self::custom(format_args!("expected {expected}"))
    }
}

/// Hands out the parameters one by one and puts their names into what goes wrong with them.
struct Pairs<'a> {
    params: indexmap::map::Values<'a, String, Param>,
    current: Option<&'a Param>,
}

impl<'de> MapAccess<'de> for Pairs<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        self.current = self.params.next();
        let name = self.current.map(|param| param.name.as_str().into_deserializer());
        name.map(|name: StrDeserializer<'_, Fault>| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let param = self.current.take().ok_or_else(|| Fault::custom("a value without a name"))?;
        seed.deserialize(param.clone()).map_err(|fault| fault.at(&param.name))
    }
}

impl<'de> Deserializer<'de> for Param {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let text: StringDeserializer<Fault> = self.text().to_owned().into_deserializer();
        text.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit::<_, V>("expected true or false", |value| visitor.visit_bool(value))
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit::<_, V>("expected a whole number", |value| visitor.visit_u32(value))
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit::<_, V>("expected a whole number", |value| visitor.visit_u64(value))
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit::<_, V>("expected a whole number", |value| visitor.visit_i32(value))
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.visit::<_, V>("expected a whole number", |value| visitor.visit_i64(value))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let named = self.values.iter().filter(|(key, _)| !key.is_empty());
        let pairs = named.map(|(key, value)| (key.clone(), value.clone()));
        visitor.visit_map(MapDeserializer::<_, Fault>::new(pairs))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let text: StringDeserializer<Fault> = self.text().to_owned().into_deserializer();
        visitor.visit_enum(text)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        i8 i16 u8 u16 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct struct identifier ignored_any
    }
}
