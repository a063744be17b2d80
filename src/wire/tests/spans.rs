//! Properties of span maps over generated histories, on every wire.

use proptest::prelude::*;

use crate::domain::ledger::{Place, Span};
use crate::domain::provider::Provider;
use crate::render::profile::Profile;
use crate::render::proof::prove;
use crate::render::redact::Redactor;
use crate::render::tests::properties::{config, history, readings};
use crate::wire::encode;

/// Whether the spans begin at the first byte, each where the one before it ends, and end at the last.
fn tile(spans: &[Span], length: usize) -> bool {
    let ends = std::iter::once(0).chain(spans.iter().map(|span| span.end));
    let fits = spans.iter().zip(ends).all(|(span, end)| span.start == end && span.end > end);
    fits && spans.last().map(|span| span.end) == u64::try_from(length).ok()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn spans_tile_every_request_and_its_frames_are_proved(
        steps in history(),
        readings in readings(),
        provider in proptest::sample::select(Provider::ALL),
    ) {
        for mut reading in readings {
                reading.model.provider = provider;
                reading.model.base_url = None;
                reading.profile = Profile::resolve(&reading.model);
                let prompt = reading.prompt(&steps, &Redactor::none());
                let encoded = encode(provider, &prompt, &reading.profile, true);
                prop_assert!(tile(&encoded.spans, encoded.body.len()), "{provider}");
                let body: serde_json::Value = serde_json::from_slice(&encoded.body).unwrap();
                prop_assert!(body.is_object());
                let names = reading.framing.tags.names();
                let proof = prove(&encoded.body, &encoded.spans, &names);
                prop_assert_eq!(proof, Ok(()), "{}: {}", provider, body);
                // Every step that a span names is one of the history.
                let last = 1 + i64::try_from(steps.len()).unwrap();
                for span in &encoded.spans {
                    if let Place::Step { seq, .. } = span.origin.place {
                        prop_assert!((1..last + 1).contains(&seq), "{seq}");
                    }
                }
        }
    }
}
