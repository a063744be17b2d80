//! Properties of span maps over generated histories, on every wire.

use proptest::prelude::*;
use serde_json::json;

use super::wires::{Spoken, WIRES};
use crate::domain::ledger::{Encoded, Origin, Place, Span, Voice};
use crate::domain::message::{ReplyPart, TextPart, ThinkingPart};
use crate::domain::provider::Provider;
use crate::domain::redaction::{PLACEHOLDER_START, RedactionRule};
use crate::domain::step::StepContent;
use crate::domain::tool::ToolDefinition;
use crate::render::observation::{ObservationContext, OutputLimits, observed};
use crate::render::profile::Profile;
use crate::render::proof::prove;
use crate::render::redact::{PlaceholderKey, Redactor, RuleSet};
use crate::render::tests::properties::{Reading, config, history, readings};
use crate::render::tests::support::{acted, call, success, task};
use crate::render::{FramingRules, RenderInput, render};
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

/// A reply of which next to nothing can be read, with names and ids that its model chose.
fn sealed(provider: Provider) -> Vec<StepContent> {
    let echo = json!({"thoughtSignature": "MODELS", "citations": ["MODELS"], "phase": "MODELS",
        "id": "MODELS", "caller": {"type": "MODELS"}});
    let (text, issuer) = (String::new(), Some(provider));
    let signature = Some("MODELS".to_owned());
    let thinking = |text| ThinkingPart {
        text,
        signature: signature.clone(),
        id: signature.clone(),
        issuer,
        echo: None,
    };
    let mut called = call("MODELS", "MODELS", "{}");
    if let ReplyPart::ToolCall(call) = &mut called {
        call.echo = Some(echo.clone());
    }
    let parts = vec![
        ReplyPart::Thinking(thinking(text.clone())),
        ReplyPart::Text(TextPart { text, echo: Some(echo.clone()) }),
        ReplyPart::Text(TextPart { text: "said".to_owned(), echo: Some(echo) }),
        called,
    ];
    let mut outcome = success("MODELS", "");
    "MODELS".clone_into(&mut outcome.name);
    let mut step = acted(parts, vec![outcome]);
    if let StepContent::Action(action) = &mut step {
        action.reply.provider = issuer;
    }
    vec![task("?"), step]
}

/// The origins of the bytes that spell a word.
fn origins<'e>(encoded: &'e Encoded, word: &str) -> Vec<&'e Origin> {
    let found = memchr::memmem::find_iter(&encoded.body, word.as_bytes());
    let of = |at: usize| {
        let at = u64::try_from(at).unwrap();
        let span = encoded.spans.iter().find(|span| span.start <= at && at < span.end);
        &span.unwrap().origin
    };
    found.map(of).collect()
}

#[test]
fn no_byte_that_a_model_chose_is_called_syntax() {
    for (_, model) in WIRES.iter().flat_map(Spoken::models) {
        let (provider, profile) = (model.provider, Profile::resolve(&model));
        let reading = Reading { model, profile, framing: FramingRules::default() };
        let prompt = reading.prompt(&sealed(provider), &Redactor::none());
        let encoded = encode(provider, &prompt, &reading.profile, true);
        let origins = origins(&encoded, "MODELS");
        assert!(origins.len() > 1, "{provider}");
        for origin in origins {
            let is_of_step = matches!(origin.place, Place::Step { seq: 2, .. });
            assert!(is_of_step, "{provider}: {}", String::from_utf8_lossy(&encoded.body));
        }
    }
}

#[test]
fn what_redaction_changed_of_a_declaration_is_called_redacted() {
    let rules = json!([{"kind": "value", "name": "n", "value": "SECRETIVE"}]);
    let rules = RuleSet::of(&serde_json::from_value::<Vec<RedactionRule>>(rules).unwrap());
    let redactor = Redactor::new([&rules], PlaceholderKey::of(&[7; 32], "thread"));
    let schema = || json!({"type": "object", "description": "SECRETIVE", "properties": {}});
    let tool = |description: &str| ToolDefinition {
        name: description.to_lowercase(),
        description: description.to_owned(),
        parameters: schema(),
    };
    let tools = [tool("SECRETIVE"), tool("plainly")];
    for (_, mut model) in WIRES.iter().flat_map(Spoken::models) {
        model.settings.structured_output = Some(true);
        let profile = Profile::resolve(&model);
        let input = RenderInput {
            model: &model,
            instructions: Some("Be SECRETIVE."),
            skills: &[],
            steps: &[task("?")],
            first_seq: 1,
            tools: &tools,
            closing: false,
            output_schema: Some(&schema()),
            framing: &FramingRules::default(),
            limits: &OutputLimits::default(),
            redactor: &redactor,
        };
        let encoded = encode(model.provider, &render(&input, &profile), &profile, true);
        let parts: Vec<&Origin> = origins(&encoded, PLACEHOLDER_START);
        assert!(parts.len() > 3, "{}", String::from_utf8_lossy(&encoded.body));
        assert!(parts.iter().all(|origin| origin.redacted), "{}: {parts:?}", model.provider);
        let plain = origins(&encoded, "plainly");
        assert!(plain.iter().all(|origin| !origin.redacted), "{}", model.provider);
    }
}

#[test]
fn what_is_said_of_a_cut_is_said_by_the_application() {
    let context = ObservationContext { max_chars: Some(2), is_repeat: false };
    let text = observed(&success("c", "abcd"), context, &Origin::step(1, 0, Voice::Data));
    let pieces: Vec<_> =
        text.pieces().map(|(text, origin)| (text, origin.voice, origin.truncated)).collect();
    let (data, ours) = (Some(Voice::Data), Some(Voice::Application));
    let said = "\n... [2 characters omitted] ...\n";
    assert_eq!(pieces, [("a", data, true), (said, ours, true), ("d", data, true)]);
}
