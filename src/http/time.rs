//! Times as the API shows them: RFC 3339, UTC, milliseconds.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};

/// A time in a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(DateTime<Utc>);

impl From<DateTime<Utc>> for Time {
    fn from(time: DateTime<Utc>) -> Self {
        Self(time)
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl utoipa::PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .description(Some("RFC 3339, UTC, with milliseconds."))
            .examples(["2026-01-31T09:30:00.000Z"])
            .into()
    }
}

impl utoipa::ToSchema for Time {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_always_has_three_digits_after_the_second() {
        for (micros, shown) in [(0, "000"), (120_000, "120"), (120_987, "120")] {
            let time = DateTime::from_timestamp_micros(1_700_000_000_000_000 + micros).unwrap();
            let text = serde_json::to_string(&Time::from(time)).unwrap();
            assert_eq!(text, format!("\"2023-11-14T22:13:20.{shown}Z\""));
        }
    }
}
