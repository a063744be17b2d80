//! What a model would be sent, as callers see it.

use serde::Serialize;
use utoipa::ToSchema;

use super::turns::{TurnView, turns};
use crate::domain::model::Provider;
use crate::domain::thread::{Announce, FramingPolicy};
use crate::engine::{Comparison, Rendered};

/// Declares what two renderings have in common, and then what is their own.
macro_rules! renderings {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)+ })+) => {$(
        #[derive(Debug, Serialize, ToSchema)]
        $(#[$meta])*
        pub(super) struct $name {
            /// Whose wire it is.
            provider: Provider,
            /// The family of models that it is rendered for.
            #[schema(examples("openai_compatible"))]
            profile: String,
            /// How the history is framed.
            framing_policy: FramingPolicy,
            /// Whether system blocks are explained to models that have no entry of their own for them.
            announce: Announce,
            /// The standing instructions; null when there are none.
            system: Option<String>,
            /// The request body, byte for byte.
            body: String,
            /// The SHA-256 of the body.
            body_sha256: String,
            /// How many tokens it is, estimated without the model's tokeniser, rather too high.
            tokens: u64,
            /// The conversation, before the provider's spelling.
            turns: Vec<TurnView>,
            $($(#[$field_meta])* $field: $type,)+
        }

        impl $name {
            fn from_parts(rendered: Rendered, own: ($($type,)+)) -> Self {
                let Rendered { provider, profile, framing_policy, announce, .. } = rendered;
                let ($($field,)+) = own;
                Self {
                    provider,
                    profile: profile.to_owned(),
                    framing_policy,
                    announce,
                    system: rendered.prompt.system.map(|text| text.into_string()),
                    body: rendered.body,
                    body_sha256: rendered.sha256.to_string(),
                    tokens: rendered.tokens,
                    turns: turns(rendered.prompt.turns),
                    $($field,)+
                }
            }
        }
    )+};
}

renderings! {
    /// What a model would be sent.
    #[schema(as = Rendering)]
    RenderView {
        /// The same in another way; absent when no other was asked for.
        #[serde(skip_serializing_if = "Option::is_none")]
        comparison: Option<ComparisonView>,
    }
    /// What a model would be sent otherwise, and how much of it is the same.
    #[schema(as = RenderingComparison)]
    ComparisonView {
        /// How many leading bytes of the two bodies are equal.
        shared_bytes: usize,
        /// Where they begin to differ; null when they are the same.
        first_difference: Option<DifferenceView>,
    }
}

/// Where two bodies begin to differ.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FirstDifference)]
pub(super) struct DifferenceView {
    /// The place of the first byte that differs, from 0.
    byte: usize,
    /// What the body has from there on, shortened.
    here: String,
    /// What the other body has from there on, shortened.
    there: String,
}

impl RenderView {
    /// The view of a rendering and of the one that it is compared with.
    pub(super) fn of(rendered: Rendered, comparison: Option<Comparison>) -> Self {
        Self::from_parts(rendered, (comparison.map(ComparisonView::from),))
    }
}

impl From<Comparison> for ComparisonView {
    fn from(Comparison { rendered, shared_bytes, excerpts }: Comparison) -> Self {
        let at = |(here, there)| DifferenceView { byte: shared_bytes, here, there };
        Self::from_parts(rendered, (shared_bytes, excerpts.map(at)))
    }
}
