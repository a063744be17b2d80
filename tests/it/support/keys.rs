//! Keys, as the command makes them.

use agentling::app::Surroundings;
use agentling::domain::id::{KeyId, TenantId};
use agentling::http::auth::{ApiKey, Pepper};
use agentling::store::keys::{self, StoredKey};
use chrono::{DateTime, Utc};
use secrecy::ExposeSecret;

use super::TestApp;

/// A new key of a tenant with these scopes.
pub(crate) async fn mint_key(app: &TestApp, tenant: &str, scopes: &[&str]) -> String {
    mint_key_until(app, (tenant, scopes), None).await.1
}

/// The same with an end; answers the key's id too.
pub(crate) async fn mint_key_until(
    app: &TestApp,
    (tenant, scopes): (&str, &[&str]),
    expires_at: Option<DateTime<Utc>>,
) -> (KeyId, String) {
    let (around, store) = (Surroundings::default(), &app.running.store.as_system());
    // The server has made its pepper when it started, so the one offered here is not taken.
    let pepper = keys::shared_secret(store, "pepper", [0; 32]).await.unwrap();
    let key = ApiKey::mint(around.ids.as_ref()).unwrap();
    let stored = StoredKey {
        id: key.id(),
        tenant: TenantId::parse(tenant).unwrap(),
        name: "test".to_owned(),
        hash: key.hash(&Pepper::of(&pepper)).to_vec(),
        scopes: scopes.iter().map(|scope| scope.parse().unwrap()).collect(),
        created_at: around.clock.now(),
        expires_at,
        revoked_at: None,
        replaces: None,
    };
    keys::insert(store, &stored).await.unwrap();
    (key.id(), key.reveal().expose_secret().to_owned())
}
