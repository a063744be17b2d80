//! Public keys of issuers (RFC 7517).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

/// The most keys of an issuer that are kept.
const MAX_KEYS: usize = 100;

/// How a token may be signed. There is no other way, and none with a shared secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// A key that tells whether something was signed with its private half.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VerifyingKey {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256 { point: Vec<u8> },
    Ed25519 { point: Vec<u8> },
}

impl VerifyingKey {
    /// The one algorithm that it is for.
    const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Rsa { .. } => Algorithm::Rs256,
            Self::P256 { .. } => Algorithm::Es256,
            Self::Ed25519 { .. } => Algorithm::EdDsa,
        }
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self {
            Self::Rsa { n, e } => RsaPublicKeyComponents { n, e }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                message,
                signature,
            ),
            Self::P256 { point } => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Self::Ed25519 { point } => {
                UnparsedPublicKey::new(&ED25519, point).verify(message, signature)
            }
        };
        verified.is_ok()
    }
}

/// The keys of an issuer by their names and what they are for.
pub(super) type KeySet = BTreeMap<(String, Algorithm), VerifyingKey>;

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: String,
    r#use: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// The keys of a document that tokens can be verified with; others are none of ours. `None` when it is no
/// such document.
pub(super) fn read(document: &[u8]) -> Option<KeySet> {
    let document: Document = serde_json::from_slice(document).ok()?;
    let keys = document.keys.into_iter().take(MAX_KEYS);
    Some(keys.filter_map(|key| usable(serde_json::from_value(key).ok()?)).collect())
}

fn usable(jwk: Jwk) -> Option<((String, Algorithm), VerifyingKey)> {
    let key = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", None) => VerifyingKey::Rsa { n: bytes(jwk.n)?, e: bytes(jwk.e)? },
        ("EC", Some("P-256")) => {
            // A point as it is, neither compressed nor without its mark.
            let point = [vec![4], bytes(jwk.x)?, bytes(jwk.y)?].concat();
            VerifyingKey::P256 { point }
        }
        ("OKP", Some("Ed25519")) => VerifyingKey::Ed25519 { point: bytes(jwk.x)? },
        _ => return None,
    };
    let signs = jwk.r#use.is_none_or(|purpose| purpose == "sig");
    let algorithm = key.algorithm();
    let fits = jwk.alg.is_none_or(|alg| Algorithm::named(&alg) == Some(algorithm));
    (signs && fits).then_some(((jwk.kid, algorithm), key))
}

fn bytes(text: Option<String>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text?).ok()
}
