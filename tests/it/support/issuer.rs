//! An OpenID provider: what it publishes, and the tokens that it signs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::rsa;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// A key pair of a provider.
pub(crate) enum IssuerKey {
    Ed25519(&'static str, Ed25519KeyPair),
    P256(&'static str, EcdsaKeyPair),
    Rsa(&'static str, Box<RsaKeyPair>),
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

impl IssuerKey {
    pub(crate) fn ed25519(kid: &'static str) -> Self {
        let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed25519(kid, Ed25519KeyPair::from_pkcs8(pair.as_ref()).unwrap())
    }

    pub(crate) fn p256(kid: &'static str) -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Self::P256(kid, EcdsaKeyPair::from_pkcs8(algorithm, pair.as_ref(), &random).unwrap())
    }

    /// Always the same pair, which serves for nothing else: making one takes seconds.
    pub(crate) fn rsa(kid: &'static str) -> Self {
        let text = include_str!("../../data/issuer_rsa_key.txt").replace('\n', "");
        let pair = RsaKeyPair::from_pkcs8(&BASE64_STANDARD.decode(text).unwrap()).unwrap();
        Self::Rsa(kid, Box::new(pair))
    }

    pub(crate) const fn kid(&self) -> &'static str {
        match self {
            Self::Ed25519(kid, _) | Self::P256(kid, _) | Self::Rsa(kid, _) => kid,
        }
    }

    pub(crate) const fn algorithm(&self) -> &'static str {
        match self {
            Self::Ed25519(..) => "EdDSA",
            Self::P256(..) => "ES256",
            Self::Rsa(..) => "RS256",
        }
    }

    /// The public half, as providers publish it.
    pub(crate) fn jwk(&self) -> Value {
        match self {
            Self::Ed25519(kid, pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "use": "sig",
                        "x": encoded(pair.public_key()) })
            }
            Self::P256(kid, pair) => {
                let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
                json!({ "kty": "EC", "crv": "P-256", "kid": kid, "alg": "ES256",
                        "x": encoded(x), "y": encoded(y) })
            }
            Self::Rsa(kid, pair) => {
                let parts: rsa::PublicKeyComponents<Vec<u8>> = pair.public().into();
                json!({ "kty": "RSA", "kid": kid, "alg": "RS256", "use": "sig",
                        "n": encoded(parts.n), "e": encoded(parts.e) })
            }
        }
    }

    fn signature(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Ed25519(_, pair) => pair.sign(message).as_ref().to_vec(),
            Self::P256(_, pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Self::Rsa(_, pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
        }
    }

    /// A token with a header as it comes.
    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = self.signature(message.as_bytes());
        format!("{message}.{}", encoded(signature))
    }

    /// A token as providers sign them.
    pub(crate) fn token(&self, claims: &Value) -> String {
        let header = json!({ "alg": self.algorithm(), "kid": self.kid(), "typ": "JWT" });
        self.token_with(&header, claims)
    }
}

/// A token that anybody can make: its last part is what a closure makes of the rest.
pub(crate) fn forged(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let signature = sign(message.as_bytes());
    format!("{message}.{}", encoded(signature))
}

/// The provider; it lives as long as the test's runtime.
#[derive(Clone)]
pub(crate) struct FakeIssuer {
    /// Its `iss`.
    pub(crate) url: String,
    /// Its `host:port`.
    pub(crate) host: String,
    inner: Arc<Inner>,
}

struct Inner {
    keys: Mutex<Vec<Value>>,
    n_fetched: AtomicUsize,
    is_broken: AtomicBool,
    /// Whoever asks for the keys needs a permit.
    gate: Semaphore,
}

impl FakeIssuer {
    /// Starts one that publishes these keys.
    pub(crate) async fn start(keys: &[&IssuerKey]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let inner = Arc::new(Inner {
            keys: Mutex::default(),
            n_fetched: AtomicUsize::new(0),
            is_broken: AtomicBool::new(false),
            gate: Semaphore::new(1_000),
        });
        let issuer = Self { url: format!("http://{host}"), host, inner };
        issuer.publish(keys);
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(published))
            .with_state(issuer.clone());
        #[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
        tokio::spawn(async move { axum::serve(listener, router).await });
        issuer
    }

    /// Publishes these keys from now on and no others.
    pub(crate) fn publish(&self, keys: &[&IssuerKey]) {
        *self.inner.keys.lock().unwrap() = keys.iter().map(|key| key.jwk()).collect();
    }

    /// Answers every question with an error from now on, or does so no more.
    pub(crate) fn set_broken(&self, is_broken: bool) {
        self.inner.is_broken.store(is_broken, Ordering::Relaxed);
    }

    /// Leaves everybody who asks for the keys waiting.
    pub(crate) async fn hold(&self) {
        self.inner.gate.acquire_many(1_000).await.unwrap().forget();
    }

    /// Answers them.
    pub(crate) fn release(&self) {
        self.inner.gate.add_permits(1_000);
    }

    /// How often the keys were asked for.
    pub(crate) fn n_fetched(&self) -> usize {
        self.inner.n_fetched.load(Ordering::Relaxed)
    }
}

async fn discovery(State(issuer): State<FakeIssuer>) -> String {
    json!({ "issuer": issuer.url, "jwks_uri": format!("{}/keys", issuer.url) }).to_string()
}

async fn published(State(issuer): State<FakeIssuer>) -> Result<String, StatusCode> {
    issuer.inner.n_fetched.fetch_add(1, Ordering::Relaxed);
    drop(issuer.inner.gate.acquire().await.unwrap());
    if issuer.inner.is_broken.load(Ordering::Relaxed) {
        return Err(StatusCode::INTERNAL_SERVER_ERROR);
    }
    Ok(json!({ "keys": *issuer.inner.keys.lock().unwrap() }).to_string())
}
