//! How the body of an answer begins, which tells what it is.

/// The fields of an event stream.
const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

/// A byte order mark.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// Looks at the beginning of a body while that arrives. Servers send white space for as long as a model
/// thinks, so what was seen to be blank is not looked at again.
#[derive(Debug, Default)]
pub(super) struct Opening {
    blank: usize,
}

/// What a body begins with after white space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    /// A field of an event stream, or a comment in one.
    Field,
    /// This byte, which begins no field.
    Byte(u8),
}

impl Opening {
    /// What a body begins with; `None` while that is not there to tell. A body that is whole has nothing
    /// more to wait for.
    pub(super) fn look(&mut self, body: &[u8], is_whole: bool) -> Option<First> {
        if self.blank < MARK.len() && body.starts_with(MARK) {
            self.blank = MARK.len();
        }
        let rest = body.get(self.blank..).unwrap_or_default();
        let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.blank += blank;
        let rest = rest.get(blank..).unwrap_or_default();
        first(rest, is_whole)
    }
}

fn first(rest: &[u8], is_whole: bool) -> Option<First> {
    let byte = *rest.first()?;
    let letters = rest.iter().take_while(|byte| byte.is_ascii_lowercase());
    let (name, after) = rest.split_at_checked(letters.take(6).count())?;
    match after.first() {
        Some(b':') if name.is_empty() || FIELDS.contains(&name) => Some(First::Field),
        Some(b'\r' | b'\n') if FIELDS.contains(&name) => Some(First::Field),
        None if !is_whole && FIELDS.iter().any(|field| field.starts_with(name)) => None,
        _ if !is_whole && MARK.starts_with(rest) => None,
        _ => Some(First::Byte(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_told_from_a_word_that_begins_like_one() {
        for body in
            ["data: x", "id: 1", "retry:5", "event: a", "data\n", ": hi", "\u{FEFF}\n data:"]
        {
            assert_eq!(
                Opening::default().look(body.as_bytes(), false),
                Some(First::Field),
                "{body}"
            );
        }
        for (body, byte) in [
            ("{\"id\":1}", b'{'),
            (" \n[", b'['),
            ("\u{FEFF}{", b'{'),
            ("internal error", b'i'),
            ("database: gone", b'd'),
            ("error: no", b'e'),
            ("\0\0", 0),
        ] {
            assert_eq!(
                Opening::default().look(body.as_bytes(), false),
                Some(First::Byte(byte)),
                "{body}"
            );
        }
    }

    #[test]
    fn what_may_still_become_a_field_is_waited_for_unless_the_body_is_whole() {
        for body in ["da", "retry", "\n\ni"] {
            let whole = Opening::default().look(body.as_bytes(), true);
            assert!(matches!(whole, Some(First::Byte(_))), "{body}: {whole:?}");
            assert_eq!(Opening::default().look(body.as_bytes(), false), None, "{body}");
        }
        assert_eq!(Opening::default().look(&MARK[..2], false), None);
        for whole in [true, false] {
            assert_eq!(Opening::default().look(b" \n ", whole), None);
        }
    }

    #[test]
    fn white_space_is_looked_at_once() {
        let mut opening = Opening::default();
        assert_eq!(opening.look(b"  \n", false), None);
        // Were the first bytes looked at again, the body would begin with them.
        assert_eq!(opening.look(b"xxx{", false), Some(First::Byte(b'{')));
    }
}
