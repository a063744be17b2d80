//! Conversions that every aggregate needs: labels, counts and JSON from rows, with a finding that
//! names table, column and row when a row does not read.

use std::fmt::Display;
use std::str::FromStr;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use crate::domain::agent::Metadata;

/// Where a value stands, for the error that says it does not read.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'a, I: Display> {
    pub(super) table: &'static str,
    pub(super) id: &'a I,
}

impl<I: Display> At<'_, I> {
    pub(super) fn wrong(&self, column: &'static str) -> StoreError {
        StoreError::Inconsistent { table: self.table, column, id: self.id.to_string() }
    }

    /// A label that must be one of its vocabulary.
    pub(super) fn label<T: FromStr>(
        &self,
        column: &'static str,
        text: &str,
    ) -> Result<T, StoreError> {
        text.parse().map_err(|_| self.wrong(column))
    }

    /// A label or nothing.
    pub(super) fn label_opt<T: FromStr>(
        &self,
        column: &'static str,
        text: Option<&str>,
    ) -> Result<Option<T>, StoreError> {
        text.map(|text| self.label(column, text)).transpose()
    }

    /// A count that the schema keeps from being negative.
    pub(super) fn count<F, T: TryFrom<F>>(
        &self,
        column: &'static str,
        n: F,
    ) -> Result<T, StoreError> {
        T::try_from(n).map_err(|_| self.wrong(column))
    }

    /// A document.
    pub(super) fn json<T: DeserializeOwned>(
        &self,
        column: &'static str,
        text: &str,
    ) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|_| self.wrong(column))
    }

    /// A document or nothing.
    pub(super) fn json_opt<T: DeserializeOwned>(
        &self,
        column: &'static str,
        text: Option<&str>,
    ) -> Result<Option<T>, StoreError> {
        text.map(|text| self.json(column, text)).transpose()
    }
}

/// A document's text as it is stored. Documents are sent as text and cast, because `json` keeps the
/// text as it is: key order and number spelling survive.
pub(super) fn to_json<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Database(sqlx::Error::Encode(Box::new(error))))
}

/// A document's text, or nothing.
pub(super) fn to_json_opt<T: Serialize>(value: Option<&T>) -> Result<Option<String>, StoreError> {
    value.map(to_json).transpose()
}

/// Labels as the two columns that a filter compares with.
pub(super) fn labels(metadata: &Metadata) -> (Vec<String>, Vec<String>) {
    metadata.iter().map(|(key, value)| (key.clone(), value.clone())).unzip()
}
