//! Signatures of deliveries, as the Standard Webhooks have them.
//!
//! No secret is stored: each is derived from one that all replicas share, from the endpoint and from
//! the version of its secret.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::domain::id::{DeliveryId, TenantId, WebhookId};

/// What secrets begin with.
const PREFIX: &str = "whsec_";

/// The secret of an endpoint, as its bytes.
pub(super) fn secret(
    shared: &[u8; 32],
    tenant: &TenantId,
    id: WebhookId,
    version: i32,
) -> [u8; 32] {
    // A tenant's name holds no colon, so that no two endpoints have the same text.
    mac(shared, format!("webhook:{tenant}:{id}:{version}").as_bytes())
}

/// A secret as its owner is shown it.
pub(super) fn shown(secret: &[u8; 32]) -> String {
    format!("{PREFIX}{}", BASE64_STANDARD.encode(secret))
}

/// The value of `webhook-signature`: one signature a secret.
pub(super) fn signature(
    secrets: &[[u8; 32]],
    id: DeliveryId,
    timestamp: i64,
    body: &[u8],
) -> String {
    let signed = |secret: &[u8; 32]| {
        let text = [format!("{id}.{timestamp}.").as_bytes(), body].concat();
        format!("v1,{}", BASE64_STANDARD.encode(mac(secret, &text)))
    };
    secrets.iter().map(signed).collect::<Vec<_>>().join(" ")
}

fn mac(key: &[u8; 32], text: &[u8]) -> [u8; 32] {
    // HMAC pads a short key with zeros to its block; done here, making it cannot fail.
    let mut block = [0; 64];
    block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    Hmac::<Sha256>::new(&block.into()).chain_update(text).finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_delivery_is_signed_as_the_standard_says() {
        // Made by another implementation of HMAC, from a key of 32 bytes of 0x07.
        let id = DeliveryId::from(Uuid::from_u128(1));
        let signed = signature(&[[7; 32]], id, 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,iqfdvrh7EnlsxPyJlyuJX3o9xzLBs03c+3HsuO6xjvA=");
    }

    #[test]
    fn every_secret_signs_and_no_two_are_the_same() {
        let (tenant, other) = (TenantId::default(), TenantId::parse("other").unwrap());
        let id = WebhookId::from(Uuid::from_u128(1));
        let (first, second) = (secret(&[1; 32], &tenant, id, 1), secret(&[1; 32], &tenant, id, 2));
        assert_ne!(first, second);
        assert_ne!(first, secret(&[1; 32], &other, id, 1));
        assert_ne!(first, secret(&[2; 32], &tenant, id, 1));
        let delivery = DeliveryId::from(Uuid::from_u128(2));
        let one = |secret| signature(&[secret], delivery, 9, b"{}");
        let both = format!("{} {}", one(second), one(first));
        assert_eq!(signature(&[second, first], delivery, 9, b"{}"), both);
        assert!(shown(&first).starts_with("whsec_"));
    }
}
