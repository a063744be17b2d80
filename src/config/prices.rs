//! What models cost.

use super::Setting;
use super::reader::Reader;
use crate::domain::budget::Prices;

pub(super) const PRICES: Setting = Setting::plain(
    "AGENTLING_PRICES",
    "what models cost, as JSON: by `provider/model` or `provider/*`, the prices of a million tokens as \
     `{\"input\": \"1.25\", \"output\": \"10\"}`, and `cache_read` and `cache_write` where they differ",
);

pub(super) fn read(reader: &mut Reader<'_>) -> Prices {
    let parse = |text: &str| {
        serde_json::from_str(text).map_err(|error| format!("must be a table of prices: {error}"))
    };
    reader.optional(PRICES, parse).unwrap_or_default()
}
