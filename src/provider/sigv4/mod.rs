//! AWS Signature Version 4: what proves to AWS who sends a request, without sending the secret.
//!
//! A pure function over the request as it goes out. The path is taken as sent and encoded once more,
//! as every AWS service but S3 wants it.

mod canonical;

use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

/// Who signs.
#[derive(Debug, Clone)]
pub(super) struct AwsCredentials {
    /// The public half.
    pub(super) access_key_id: String,
    /// The secret half.
    pub(super) secret_access_key: SecretString,
    /// What temporary credentials are sent with.
    pub(super) session_token: Option<SecretString>,
}

/// A request about to be signed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signable<'a> {
    /// The method, in capitals.
    pub(super) method: &'a str,
    /// The address as sent.
    pub(super) url: &'a Url,
    /// Headers that the signature covers beside those it brings itself and `host`: only such as
    /// nothing on the way changes.
    pub(super) headers: &'a [(&'a str, &'a str)],
    /// The body as sent.
    pub(super) body: &'a [u8],
}

/// The headers that sign a request; all of them are to be sent with it.
pub(super) fn sign(
    request: &Signable<'_>,
    credentials: &AwsCredentials,
    region: &str,
    service: &str,
    now: DateTime<Utc>,
) -> Vec<(&'static str, String)> {
    let time = now.format("%Y%m%dT%H%M%SZ").to_string();
    let day = now.format("%Y%m%d").to_string();
    let mut added = vec![("x-amz-date", time.clone())];
    if let Some(token) = &credentials.session_token {
        added.push(("x-amz-security-token", token.expose_secret().to_owned()));
    }
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let (canonical, signed) = canonical::request(request, &added);
    let to_sign =
        format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&hash(canonical.as_bytes())));
    let key = signing_key(credentials, [&day, region, service]);
    let signature = hex(&mac(&key, to_sign.as_bytes()));
    let id = &credentials.access_key_id;
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={signed}, Signature={signature}"
    );
    added.push(("authorization", authorization));
    added
}

/// The key of one day, region and service, in this order.
fn signing_key(credentials: &AwsCredentials, steps: [&str; 3]) -> [u8; 32] {
    let secret = format!("AWS4{}", credentials.secret_access_key.expose_secret());
    let [day, region, service] = steps;
    let first = mac(secret.as_bytes(), day.as_bytes());
    [region, service, "aws4_request"].iter().fold(first, |key, step| mac(&key, step.as_bytes()))
}

fn mac(key: &[u8], message: &[u8]) -> [u8; 32] {
    // HMAC hashes a key longer than its block and pads a shorter one with zeros; done here, making
    // it cannot fail.
    let mut block = [0; 64];
    let hashed = (key.len() > block.len()).then(|| hash(key));
    let key = hashed.as_ref().map_or(key, |hashed| hashed.as_slice());
    block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    mac.update(message);
    mac.finalize().into_bytes().into()
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests;
