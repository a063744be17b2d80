//! What a step tells of the request that it answers: figures, not the request itself.

use std::fmt;

use super::ledger::Span;

/// The SHA-256 of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyHash(pub [u8; 32]);

impl fmt::Display for BodyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A request body in figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFigures {
    /// How long it was.
    pub bytes: u64,
    /// How many of its leading bytes were those of the thread's last request that got a reply; `None`
    /// where that one is not known any more.
    pub shared_bytes: Option<u64>,
    /// Its hash.
    pub sha256: BodyHash,
    /// What stands behind those leading bytes; `None` where nothing does, or none was compared.
    pub difference: Option<Span>,
}

/// How many leading bytes are equal.
pub fn shared_prefix(one: &[u8], other: &[u8]) -> usize {
    // Whole chunks are compared as such, which is much faster than byte by byte.
    const CHUNK: usize = 1024;
    let chunks = one.chunks_exact(CHUNK).zip(other.chunks_exact(CHUNK));
    let equal = chunks.take_while(|(one, other)| one == other).count() * CHUNK;
    let rest = one.iter().skip(equal).zip(other.iter().skip(equal));
    equal + rest.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_bytes_are_counted_up_to_the_first_difference_wherever_it_is() {
        let one = vec![b'a'; 5000];
        assert_eq!(shared_prefix(&one, &one), 5000);
        assert_eq!(shared_prefix(&one, b""), 0);
        for at in [0, 1, 1023, 1024, 1025, 4095, 4096, 4999] {
            let mut other = one.clone();
            other[at] = b'b';
            assert_eq!(shared_prefix(&one, &other), at);
            assert_eq!(shared_prefix(&one, &one[..at]), at);
            assert_eq!(shared_prefix(&one[..at], &one), at);
        }
    }

    #[test]
    fn a_hash_is_told_in_hexadecimal_digits() {
        let mut bytes = [0; 32];
        (bytes[0], bytes[31]) = (0xa, 0xff);
        let told = BodyHash(bytes).to_string();
        assert_eq!(told, format!("0a{}ff", "00".repeat(30)));
    }
}
