//! Placeholders: what stands in the place of a redacted value, and how one is recognised.

use std::collections::BTreeSet;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::domain::redaction::PLACEHOLDER_START;

/// Digits of a placeholder's number.
const DIGITS: usize = 8;
const MAX_NAME: usize = 32;

/// Numbers the values of one thread. The same key gives the same numbers in every process, so that
/// nothing has to be remembered; without it a value cannot be guessed from its number.
#[derive(Clone, Copy)]
pub struct PlaceholderKey([u8; 32]);

impl PlaceholderKey {
    /// The key of a thread, or of another scope, under a secret of the server.
    pub fn of(server_secret: &[u8; 32], scope: &str) -> Self {
        Self(mac(server_secret, &["redaction", scope]))
    }

    /// What stands for a value of a rule.
    pub(super) fn placeholder(self, rule: &str, value: &str) -> String {
        let code = mac(&self.0, &[rule, value]);
        let number = code.iter().take(8).fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
        format!("{PLACEHOLDER_START}{rule}:{:0width$}]", number % 100_000_000, width = DIGITS)
    }
}

impl std::fmt::Debug for PlaceholderKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PlaceholderKey")
    }
}

/// HMAC-SHA-256 of some pieces, each preceded by its length.
fn mac(key: &[u8; 32], pieces: &[&str]) -> [u8; 32] {
    // HMAC pads a short key with zeros to its block; done here, making it cannot fail.
    let mut block = [0; 64];
    block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    for piece in pieces {
        mac.update(&(piece.len() as u64).to_be_bytes());
        mac.update(piece.as_bytes());
    }
    mac.finalize().into_bytes().into()
}

/// The placeholders that are this redactor's own.
///
/// Anyone can write what looks like one, so the look alone protects nothing: whatever stood inside would
/// get out.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Those of known values.
    pub(super) known: BTreeSet<String>,
    /// Names of the rules whose placeholders cannot be listed.
    pub(super) numbered: BTreeSet<String>,
}

/// A placeholder in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Up to where its text is certainly that of the redactor: the number of a rule that knows no values
    /// may be anyone's.
    pub(super) sure: usize,
}

impl Marks {
    /// What is made of a text that looks like a placeholder.
    fn mark(&self, text: &str, start: usize) -> Option<Mark> {
        let end = start + text.len();
        if self.known.contains(text) {
            return Some(Mark { start, end, sure: end });
        }
        let (name, _) = text.strip_prefix(PLACEHOLDER_START)?.split_once(':')?;
        let sure = end - (DIGITS + 1);
        self.numbered.contains(name).then_some(Mark { start, end, sure })
    }
}

impl Mark {
    /// Where the number stands that may be anyone's.
    pub(super) fn doubtful(self) -> Option<(usize, usize)> {
        (self.sure < self.end).then(|| (self.sure, self.end - 1))
    }
}

/// Recognises placeholders in a text that is read byte by byte.
#[derive(Debug, Default)]
pub(super) struct Recogniser {
    /// What of it has been read.
    text: String,
    /// Where the placeholder that is being read begins.
    begun: Option<usize>,
    expects: Expects,
}

#[derive(Debug, Clone, Copy, Default)]
enum Expects {
    /// The byte with this index of the start.
    #[default]
    Opening,
    Start(usize),
    /// More of a name of so many bytes, or its end.
    Name(usize),
    /// A digit, or after the last the end.
    Number(usize),
}

impl Recogniser {
    /// Where the text begins that may still become a placeholder.
    pub(super) const fn begun(&self) -> Option<usize> {
        self.begun
    }

    /// Whether a placeholder begins with a byte.
    pub(super) fn is_opening(byte: u8) -> bool {
        PLACEHOLDER_START.as_bytes().first() == Some(&byte)
    }

    /// Takes the byte at an offset; answers the placeholder that it ends.
    pub(super) fn take(&mut self, marks: &Marks, byte: u8, at: usize) -> Option<Mark> {
        let begun = self.ended(byte, at);
        if self.begun == Some(at) {
            self.text.clear();
        }
        self.text.push(char::from(byte));
        let mark = begun.and_then(|begun| marks.mark(&self.text, begun));
        if self.begun.is_none() {
            self.text.clear();
        }
        mark
    }

    /// Where what looks like a placeholder began that a byte ends.
    fn ended(&mut self, byte: u8, at: usize) -> Option<usize> {
        let start = PLACEHOLDER_START.as_bytes();
        let next = match self.expects {
            Expects::Start(n) if start.get(n) == Some(&byte) => {
                if n + 1 == start.len() {
                    Expects::Name(0)
                } else {
                    Expects::Start(n + 1)
                }
            }
            Expects::Name(0) if byte.is_ascii_lowercase() => Expects::Name(1),
            Expects::Name(n) if n > 0 && byte == b':' => Expects::Number(0),
            Expects::Name(n) if (1..MAX_NAME).contains(&n) && is_in_name(byte) => {
                Expects::Name(n + 1)
            }
            Expects::Number(n) if n < DIGITS && byte.is_ascii_digit() => Expects::Number(n + 1),
            Expects::Number(DIGITS) if byte == b']' => {
                self.expects = Expects::Opening;
                return self.begun.take();
            }
            Expects::Opening | Expects::Start(_) | Expects::Name(_) | Expects::Number(_) => {
                let opens = Self::is_opening(byte);
                self.begun = opens.then_some(at);
                if opens { Expects::Start(1) } else { Expects::Opening }
            }
        };
        self.expects = next;
        None
    }
}

const fn is_in_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'
}
