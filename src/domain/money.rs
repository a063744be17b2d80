//! Money: a decimal text for callers, a whole number of millionths everywhere else.

use std::fmt;
use std::str::FromStr;

/// An amount of money, in whatever currency the operator gives prices in: up to nine digits, and up to
/// six behind the point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(u64);

/// A text that is no amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an amount such as \"12.5\": up to nine digits, and up to six behind the point")]
pub struct InvalidMoney;

impl Money {
    /// So many millionths.
    pub const fn of_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// The amount in millionths.
    pub const fn micros(self) -> u64 {
        self.0
    }

    /// The sum, as far as it can be kept in 63 bits.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0).min(i64::MAX.unsigned_abs()))
    }
}

impl FromStr for Money {
    type Err = InvalidMoney;

    fn from_str(text: &str) -> Result<Self, InvalidMoney> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |text: &str, most: usize| {
            (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !is_number(whole, 9) || !is_number(part, 6) {
            return Err(InvalidMoney);
        }
        let number = |text: &str| text.parse::<u64>().map_err(|_| InvalidMoney);
        Ok(Self(number(whole)? * 1_000_000 + number(&format!("{part:0<6}"))?))
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000_000, self.0 % 1_000_000);
        if part == 0 {
            return write!(f, "{whole}");
        }
        write!(f, "{whole}.{}", format!("{part:06}").trim_end_matches('0'))
    }
}

impl serde::Serialize for Money {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Money {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl utoipa::PartialSchema for Money {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some(
                "An amount of money in the currency that the operator gives prices in, as text.",
            ))
            .pattern(Some(r"^[0-9]{1,9}(\.[0-9]{1,6})?$"))
            .examples(["12.5"])
            .into()
    }
}

impl utoipa::ToSchema for Money {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_amount_is_read_to_the_millionth() {
        for (text, micros) in [
            ("0", 0),
            ("12.5", 12_500_000),
            ("0.000001", 1),
            ("999999999.999999", 999_999_999_999_999),
        ] {
            assert_eq!(text.parse(), Ok(Money::of_micros(micros)), "{text}");
        }
        for text in ["", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", "0.0000001", "1234567890", " 1"]
        {
            assert_eq!(text.parse::<Money>(), Err(InvalidMoney), "{text}");
        }
    }

    proptest! {
        #[test]
        fn an_amount_reads_back_from_its_text(micros in 0_u64..1_000_000_000_000_000) {
            let money = Money::of_micros(micros);
            prop_assert_eq!(money.to_string().parse(), Ok(money));
        }
    }
}
