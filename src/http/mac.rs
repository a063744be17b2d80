//! HMAC-SHA-256, for keys and cursors.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The code of some pieces under a key. Each piece is preceded by its length, so that neighbours
/// cannot trade bytes.
pub(super) fn of(key: &[u8; 32], pieces: &[&[u8]]) -> [u8; 32] {
    // HMAC pads a short key with zeros to its block; done here, making it cannot fail.
    let mut block = [0; 64];
    block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    for piece in pieces {
        mac.update(&(piece.len() as u64).to_be_bytes());
        mac.update(piece);
    }
    mac.finalize().into_bytes().into()
}

/// A key for one purpose, made from a secret that may serve several.
pub(super) fn derive(purpose: &str, secret: &[u8]) -> [u8; 32] {
    of(&[0; 32], &[purpose.as_bytes(), secret])
}
