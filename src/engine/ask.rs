//! One attempt at a model call, with the model's own key where it brings one. Whatever comes back is
//! without that key, and without the secrets of the server, before anything else reads it.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Context, secrets, traced};
use crate::domain::event::DeltaKind;
use crate::domain::id::TenantId;
use crate::domain::message::ReplyPart;
use crate::domain::model::{FinishReason, ModelError, ModelErrorKind};
use crate::domain::secret::SecretUnavailable;
use crate::provider::{Attempt, ModelCall};
use crate::render::redact::StreamRedactor;
use crate::tools::mask::{BEGUN, Mask};
use crate::wire::DeltaPiece;

/// What stands for an answer that is not kept.
const WITHHELD: &[u8] = b"[withheld: it held the key of the model]";

/// Who hears of the pieces of a reply.
pub(super) type OnDelta<'a> = &'a mut (dyn FnMut(DeltaPiece) + Send);

/// Asks a model once.
pub(super) async fn ask(
    context: &Context,
    tenant: &TenantId,
    call: &ModelCall,
    on_delta: OnDelta<'_>,
) -> Attempt {
    let span = traced::model(context, call);
    let attempt = span.within(Box::pin(asked(context, tenant, call, on_delta))).await;
    traced::answered(context, &span, call, &attempt);
    attempt
}

async fn asked(
    context: &Context,
    tenant: &TenantId,
    call: &ModelCall,
    on_delta: OnDelta<'_>,
) -> Attempt {
    let models = &context.parts.models;
    let own = match secrets::model_key(context, tenant, &call.spec).await {
        Ok(own) => own,
        Err(why) => return models.unsent(call, unavailable(call, why)),
    };
    let own = own.as_ref().map(|(name, key)| (name, key));
    let mask = context.parts.redaction.mask(own);
    let mut pieces = Pieces { mask: &mask, streams: BTreeMap::new(), on_delta };
    let key = own.map(|(_, key)| key);
    let mut attempt = models.call(call, key, &mut |piece| pieces.push(piece)).await;
    let end = End::of(&attempt, own.is_some());
    let has_key = pieces.finish(end);
    let is_begun = end != End::Whole && cut(&mask, &mut attempt);
    if has_key || is_begun {
        // In the bytes of a stream the key stands in pieces, which nothing finds.
        attempt.response = Bytes::from_static(WITHHELD);
    }
    masked(&mask, &mut attempt);
    attempt
}

/// How what came back ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Where it should.
    Whole,
    /// Where its size was reached.
    Full,
    /// Anywhere, also within a piece that nobody could read; and whether it was asked for with a key that came
    /// from the tenant.
    Broken { with_own_key: bool },
}

impl End {
    fn of(attempt: &Attempt, with_own_key: bool) -> Self {
        match &attempt.outcome {
            Ok(reply) if reply.finish_reason == Some(FinishReason::Length) => Self::Full,
            Ok(_) => Self::Whole,
            Err(_) => Self::Broken { with_own_key },
        }
    }

    /// Whether the text that ends so is not to be kept for so many letters at its end, which may be the
    /// beginning of a key. Where the next piece is lost, it may have had the rest; the server's own keys go only
    /// where the operator sends them, and a letter is no reason to keep no answer at all.
    const fn gives_away(self, begun: usize) -> bool {
        match self {
            Self::Whole => false,
            Self::Full | Self::Broken { with_own_key: false } => begun >= BEGUN,
            Self::Broken { with_own_key: true } => begun > 0,
        }
    }
}

const fn text_of(part: &mut ReplyPart) -> Option<&mut String> {
    match part {
        ReplyPart::Text(part) => Some(&mut part.text),
        ReplyPart::Thinking(part) => Some(&mut part.text),
        ReplyPart::ToolCall(part) => Some(&mut part.arguments),
        ReplyPart::Refusal(part) => Some(&mut part.text),
        ReplyPart::RedactedThinking(_) | ReplyPart::Unknown(_) => None,
    }
}

/// Takes the beginning of a key from the end of what broke off; whether one was in a reply, and so in pieces
/// in its bytes.
fn cut(mask: &Mask, attempt: &mut Attempt) -> bool {
    match &mut attempt.outcome {
        Ok(reply) => {
            let texts = reply.parts.iter_mut().filter_map(text_of);
            let mut is_begun = false;
            for text in texts {
                let kept = mask.kept(text);
                is_begun |= kept < text.len();
                text.truncate(kept);
            }
            is_begun
        }
        Err(error) => {
            error.operator_detail.truncate(mask.kept(&error.operator_detail));
            attempt.response.truncate(mask.kept_bytes(&attempt.response));
            false
        }
    }
}

fn unavailable(call: &ModelCall, why: SecretUnavailable) -> ModelError {
    let provider = call.spec.provider;
    let name = call.spec.api_key.as_ref().map_or("", |key| key.secret.as_str());
    let detail = format!("the secret '{name}' is not available: {why}");
    let error = ModelError::new(provider, ModelErrorKind::SecretUnavailable, detail);
    // What the database does not answer now it may answer later.
    ModelError { retryable: why == SecretUnavailable::Unread, ..error }
}

/// Takes keys out of everything that came back.
fn masked(mask: &Mask, attempt: &mut Attempt) {
    if let std::borrow::Cow::Owned(response) = mask.bytes(&attempt.response) {
        attempt.response = response.into();
    }
    match &mut attempt.outcome {
        Ok(reply) => mask.reply(reply),
        Err(error) => {
            error.operator_detail = mask.text(&error.operator_detail).into_owned();
            error.provider_code = error.provider_code.take().map(|it| mask.text(&it).into_owned());
        }
    }
}

/// The pieces of a reply on their way, each kind of which is a text of its own.
struct Pieces<'a> {
    mask: &'a Mask,
    streams: BTreeMap<DeltaKind, StreamRedactor>,
    on_delta: OnDelta<'a>,
}

impl Pieces<'_> {
    fn push(&mut self, piece: DeltaPiece) {
        let DeltaPiece { kind, text } = piece;
        if !self.streams.contains_key(&kind) {
            self.streams.extend(self.mask.stream().map(|stream| (kind, stream)));
        }
        let shown = match self.streams.get_mut(&kind) {
            Some(stream) => stream.push(&text),
            None => text,
        };
        self.tell(kind, shown);
    }

    /// Tells what was held back of texts that are over; whether a key was in one. Of texts that broke off
    /// what may be the beginning of a key is not told, and counts as it.
    fn finish(mut self, end: End) -> bool {
        let mut has_key = false;
        for (kind, stream) in std::mem::take(&mut self.streams) {
            let (text, is_key) = if end.gives_away(stream.begun()) {
                (stream.cut(), true)
            } else {
                stream.finish_telling()
            };
            has_key |= is_key;
            self.tell(kind, text);
        }
        has_key
    }

    fn tell(&mut self, kind: DeltaKind, text: String) {
        if !text.is_empty() {
            (self.on_delta)(DeltaPiece { kind, text });
        }
    }
}
