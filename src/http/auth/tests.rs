//! Who gets in, and that every refusal reads the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::HeaderValue;
use chrono::{DateTime, Utc};
use futures::future::BoxFuture;
use uuid::Uuid;

use super::*;
use crate::clock::{Clock, System};
use crate::store::StoreError;

#[derive(Debug, Default)]
struct ManualClock {
    secs: AtomicU64,
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        DateTime::from_timestamp(1_700_000_000, 0).unwrap() + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.secs.load(Ordering::Relaxed))
    }
}

#[derive(Debug, Default)]
struct Keys {
    key: std::sync::Mutex<Option<StoredKey>>,
    finds: AtomicUsize,
    down: AtomicBool,
}

impl KeyLookup for Arc<Keys> {
    fn find(&self, id: KeyId) -> BoxFuture<'_, Result<Option<StoredKey>, StoreError>> {
        self.finds.fetch_add(1, Ordering::Relaxed);
        let found = self.key.lock().unwrap().clone().filter(|key| key.id == id);
        Box::pin(async move { Ok(found) })
    }

    fn any(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        let down = self.down.load(Ordering::Relaxed);
        let any = self.key.lock().unwrap().is_some();
        Box::pin(async move {
            let [_, unavailable, ..] = StoreError::samples("");
            if down { Err(unavailable) } else { Ok(any) }
        })
    }
}

struct World {
    auth: Auth,
    keys: Arc<Keys>,
    clock: Arc<ManualClock>,
    token: String,
}

const PEPPER: &[u8] = b"three";

fn world(with_key: bool, bootstrap: Option<&str>, loopback: bool) -> World {
    let (keys, clock) = (Arc::new(Keys::default()), Arc::new(ManualClock::default()));
    let key = ApiKey::mint(&System::new()).unwrap();
    if with_key {
        *keys.key.lock().unwrap() = Some(StoredKey {
            id: key.id(),
            tenant: TenantId::parse("acme").unwrap(),
            name: "test".to_owned(),
            hash: key.hash(&Pepper::of(PEPPER)).to_vec(),
            scopes: vec![Scope::RunsRead],
            created_at: clock.now(),
            expires_at: Some(clock.now() + Duration::from_secs(1_000)),
            revoked_at: None,
            replaces: None,
        });
    }
    let settings = AuthSettings {
        pepper: Pepper::of(PEPPER),
        bootstrap: bootstrap.map(Into::into),
        loopback,
        oidc: None,
    };
    let shared: SharedClock = Arc::<ManualClock>::clone(&clock);
    let auth = Auth::new(Box::new(Arc::clone(&keys)), shared, settings);
    World { auth, keys, clock, token: key.reveal().expose_secret().to_owned() }
}

impl World {
    async fn ask(&self, headers: &[(&'static str, &str)]) -> Result<Caller, ProblemKind> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        self.auth.caller(&map, None).await.map_err(|problem| problem.kind())
    }

    async fn with_token(&self, token: &str) -> Result<Caller, ProblemKind> {
        self.ask(&[("authorization", &format!("Bearer {token}"))]).await
    }
}

#[tokio::test]
async fn a_key_brings_its_tenant_and_its_scopes() {
    let world = world(true, None, true);
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let caller = world.ask(&[("authorization", &format!("{scheme} {}", world.token))]).await;
        let caller = caller.unwrap();
        assert_eq!(caller.tenant.as_str(), "acme");
        assert!(caller.may(Scope::RunsRead) && !caller.may(Scope::RunsWrite));
    }
}

#[tokio::test]
async fn whatever_is_wrong_with_a_credential_the_answer_is_the_same() {
    let world = world(true, Some("ag_bootstrap"), true);
    let (id, secret) = world.token.split_at(36);
    let other = ApiKey::mint(&System::new()).unwrap().reveal();
    let wrong_secret = format!("{id}{}", other.expose_secret().split_at(36).1);
    let tokens = [
        other.expose_secret(),
        wrong_secret.as_str(),
        &world.token.to_uppercase(),
        &format!("{}A", world.token),
        world.token.split_at(60).0,
        &format!("ag_{}_{secret}", Uuid::nil()),
        "ag_bootstrap2",
        "ag_",
        "x",
    ];
    for token in tokens {
        assert_eq!(world.with_token(token).await, Err(ProblemKind::Unauthenticated), "{token}");
    }
    let good = format!("Bearer {}", world.token);
    let rows: [&[(&'static str, &str)]; 5] = [
        &[],
        &[("authorization", "")],
        &[("authorization", "Bearer ")],
        &[("authorization", "Basic YTpi")],
        &[("authorization", &good), ("authorization", &good)],
    ];
    for headers in rows {
        assert_eq!(world.ask(headers).await, Err(ProblemKind::Unauthenticated), "{headers:?}");
    }
}

#[tokio::test]
async fn an_expired_key_stops_at_its_time_and_a_revoked_one_within_thirty_seconds() {
    let world = world(true, None, false);
    assert!(world.with_token(&world.token).await.is_ok());
    world.keys.key.lock().unwrap().as_mut().unwrap().revoked_at = Some(world.clock.now());
    world.clock.secs.store(29, Ordering::Relaxed);
    assert!(world.with_token(&world.token).await.is_ok());
    assert_eq!(world.keys.finds.load(Ordering::Relaxed), 1, "the second look is from memory");
    world.clock.secs.store(30, Ordering::Relaxed);
    assert_eq!(world.with_token(&world.token).await, Err(ProblemKind::Unauthenticated));
    world.keys.key.lock().unwrap().as_mut().unwrap().revoked_at = None;
    world.clock.secs.store(999, Ordering::Relaxed);
    assert!(world.with_token(&world.token).await.is_ok());
    world.clock.secs.store(1_000, Ordering::Relaxed);
    assert_eq!(world.with_token(&world.token).await, Err(ProblemKind::Unauthenticated));
}

#[tokio::test]
async fn the_bootstrap_key_may_do_everything_for_the_default_tenant() {
    let world = world(false, Some("any text"), false);
    let caller = world.with_token("any text").await.unwrap();
    assert_eq!((caller.tenant, caller.key), (TenantId::default(), None));
    assert_eq!(caller.scopes.len(), Scope::ALL.len());
}

#[tokio::test]
async fn a_server_without_keys_is_open_to_its_own_machine_only() {
    let local = |host: &'static str| [("host", host)];
    let open = world(false, None, true);
    for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:65535"] {
        assert!(open.ask(&local(host)).await.is_ok(), "{host}");
    }
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io:80", "localhost:x", ""]
    {
        assert_eq!(open.ask(&local(host)).await, Err(ProblemKind::MisdirectedRequest), "{host}");
    }
    assert_eq!(open.ask(&[]).await, Err(ProblemKind::MisdirectedRequest));
    // HTTP/2 names the server in the target; where both do, both have to be right.
    let (good, evil) = (HeaderValue::from_static("localhost"), HeaderValue::from_static("evil"));
    for (host, named, is_open) in [
        (None, Some("localhost:1"), true),
        (None, Some("evil.example"), false),
        (Some(&good), Some("127.0.0.1"), true),
        (Some(&good), Some("evil.example"), false),
        (Some(&evil), Some("localhost"), false),
    ] {
        let headers: HeaderMap = host.into_iter().map(|host| (HOST, host.clone())).collect();
        assert_eq!(open.auth.caller(&headers, named).await.is_ok(), is_open, "{host:?} {named:?}");
    }
    let closed =
        [world(true, None, true), world(false, Some("b"), true), world(false, None, false)];
    for world in closed {
        assert_eq!(world.ask(&local("localhost")).await, Err(ProblemKind::Unauthenticated));
    }
}

#[tokio::test]
async fn a_server_that_cannot_tell_whether_it_has_keys_is_not_open() {
    let world = world(false, None, true);
    world.keys.down.store(true, Ordering::Relaxed);
    let answer = world.ask(&[("host", "localhost")]).await;
    assert_eq!(answer, Err(ProblemKind::DatabaseUnavailable));
}

#[test]
fn a_key_reads_back_from_its_text_and_its_hash_depends_on_the_pepper() {
    let key = ApiKey::mint(&System::new()).unwrap();
    let text = key.reveal();
    assert_eq!(text.expose_secret().len(), "ag_".len() + 32 + 1 + 43);
    let read: ApiKey = text.expose_secret().parse().unwrap();
    let (one, two) = (Pepper::of(b"one"), Pepper::of(b"two"));
    assert_eq!(read.id(), key.id());
    assert_eq!(read.hash(&one), key.hash(&one));
    assert_ne!(read.hash(&one), key.hash(&two));
    assert!(!format!("{key:?}").contains(text.expose_secret().split_at(36).1));
}
