//! Closed vocabularies that are stored and shown as fixed labels.

/// The schema extension that lists a vocabulary's labels; request bodies are checked against it.
pub const KNOWN_VALUES: &str = "x-known-values";

/// Declares an enum whose variants are stored, sent and documented as fixed labels.
///
/// Each enum gets `ALL`, `label()`, `Display`, `FromStr` and serde by label. In the OpenAPI document
/// it is an open string on purpose: clients generated today must survive labels added tomorrow.
#[macro_export]
macro_rules! labels {
    ($(#[$meta:meta])* $name:ident { $($(#[$vmeta:meta])* $variant:ident = $label:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vmeta])* $variant,)+ }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The stored and published spelling.
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.label())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::domain::label::UnknownLabel;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|value| value.label() == text).ok_or_else(|| {
                    $crate::domain::label::UnknownLabel { expected: &[$($label,)+] }
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.label())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .description(Some(concat!("One of:" $(, " `", $label, "`")+, ". More may be added.")))
                    .examples(Self::ALL.first().map(|value| value.label()))
                    .extensions(Some(
                        utoipa::openapi::extensions::ExtensionsBuilder::new()
                            .add($crate::domain::label::KNOWN_VALUES, vec![$($label,)+])
                            .build(),
                    ))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}

/// A text that is not one of a vocabulary's labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownLabel {
    /// The labels that would have been accepted.
    pub expected: &'static [&'static str],
}

impl std::fmt::Display for UnknownLabel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "expected one of: {}", self.expected.join(", "))
    }
}

impl std::error::Error for UnknownLabel {}
