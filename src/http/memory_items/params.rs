//! How items are named in a query.

use std::fmt::Display;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;

use crate::domain::memory_item::{ItemKey, ItemPlace, Namespace};

/// Which item.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ItemParams {
    /// Its namespace: 1–8 parts with a slash between them.
    #[serde(deserialize_with = "joined")]
    #[param(value_type = String, example = "users/42")]
    namespace: Namespace,
    /// Its key.
    #[param(value_type = String, example = "favourite colour")]
    key: ItemKey,
}

impl From<ItemParams> for ItemPlace {
    fn from(params: ItemParams) -> Self {
        Self { namespace: params.namespace, key: params.key }
    }
}

/// Reads parts that have a slash between them.
pub(super) fn joined<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}
