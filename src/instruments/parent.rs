//! The `traceparent` of a request, by the rules of W3C Trace Context.

use opentelemetry::trace::{SpanContext, SpanId, TraceFlags, TraceId, TraceState};

/// The span of a caller that a request belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteParent(pub(super) SpanContext);

impl RemoteParent {
    /// Reads a header. What does not keep to the rules is as if it were not there, so that nobody who gets it
    /// wrong is refused for it.
    pub fn read(header: &str) -> Option<Self> {
        let mut fields = header.split('-');
        let mut field = || fields.next();
        let (version, trace, span, flags) = (field()?, field()?, field()?, field()?);
        let version: u8 = hex(version, 2)?.try_into().ok()?;
        // What later versions add stands behind what this one knows.
        let is_known = match version {
            0 => fields.next().is_none(),
            0xff => false,
            _ => true,
        };
        let trace = TraceId::from_bytes(hex(trace, 32)?.to_be_bytes());
        let span = SpanId::from_bytes(u64::try_from(hex(span, 16)?).ok()?.to_be_bytes());
        // Of the flags only the lowest says anything to us.
        let flags = TraceFlags::new(u8::try_from(hex(flags, 2)?).ok()? & 1);
        let context = SpanContext::new(trace, span, flags, true, TraceState::NONE);
        Some(Self(context)).filter(|parent| is_known && parent.0.is_valid())
    }
}

/// A number of exactly so many lower-case digits.
fn hex(text: &str, len: usize) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let fits = text.len() == len && text.bytes().all(is_digit);
    fits.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn a_parent_is_read_with_whether_it_is_sampled() {
        for (header, sampled) in [
            (format!("00-{TRACE}-{SPAN}-01"), true),
            (format!("00-{TRACE}-{SPAN}-00"), false),
            (format!("00-{TRACE}-{SPAN}-02"), false),
            (format!("00-{TRACE}-{SPAN}-ff"), true),
            (format!("01-{TRACE}-{SPAN}-01"), true),
            (format!("cc-{TRACE}-{SPAN}-01-what-comes-later"), true),
        ] {
            let RemoteParent(parent) = RemoteParent::read(&header).expect(&header);
            assert_eq!(parent.trace_id().to_string(), TRACE);
            assert_eq!(parent.span_id().to_string(), SPAN);
            assert_eq!((parent.is_sampled(), parent.is_remote()), (sampled, true), "{header}");
        }
    }

    #[test]
    fn what_does_not_keep_to_the_rules_is_as_if_it_were_not_there() {
        let zeros = "0".repeat(32);
        for header in [
            String::new(),
            "00".to_owned(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-0g"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("0-{TRACE}-{SPAN}-01"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}0-{SPAN}-01"),
            format!("00-+{}-{SPAN}-01", TRACE.trim_start_matches('4')),
            format!(" 00-{TRACE}-{SPAN}-01"),
        ] {
            assert_eq!(RemoteParent::read(&header), None, "{header}");
        }
    }
}
