//! Tokens of OpenID providers in place of API keys.

use std::sync::Arc;
use std::time::Duration;

use agentling::app::Surroundings;
use agentling::clock::Clock as _;
use futures::future::join_all;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{send_as, speaker, without_ids};
use crate::support::{
    Answer, FakeIssuer, FakeTools, IssuerKey, Log, ManualClock, TestApp, TestDb, forged,
    picture_everything,
};

const AUDIENCE: &str = "agentling-of-the-test";

/// A server that takes the tokens of an issuer, with a clock that a test moves.
struct World {
    app: TestApp,
    clock: Arc<ManualClock>,
    issuer: FakeIssuer,
}

impl World {
    async fn new(keys: &[&IssuerKey]) -> Self {
        Self::with(keys, &[]).await
    }

    async fn with(keys: &[&IssuerKey], more: &[(&str, &str)]) -> Self {
        let issuer = FakeIssuer::start(keys).await;
        let clock = Arc::new(ManualClock::new());
        let around =
            Surroundings { clock: Arc::<ManualClock>::clone(&clock), ..Surroundings::default() };
        let mut settings = vec![
            ("AGENTLING_OIDC_ISSUERS", issuer.url.as_str()),
            ("AGENTLING_OIDC_AUDIENCE", AUDIENCE),
            ("AGENTLING_EGRESS_ALLOW", issuer.host.as_str()),
            ("AGENTLING_OIDC_TIMEOUT_MS", "60000"),
        ];
        settings.retain(|(name, _)| more.iter().all(|(other, _)| other != name));
        settings.extend_from_slice(more);
        let (db, tools) = (TestDb::new().await, FakeTools::start().await);
        let app = TestApp::on(db, tools, &settings, around).await;
        Self { app, clock, issuer }
    }

    /// The claims of a good token.
    fn claims(&self) -> Value {
        let now = self.clock.now().timestamp();
        json!({ "iss": self.issuer.url, "aud": AUDIENCE, "sub": "ann", "tenant": "acme",
                "scope": "openid agents:read", "iat": now, "exp": now + 300 })
    }

    /// The same with other claims; null leaves one out.
    fn claims_but(&self, other: &Value) -> Value {
        let mut claims = self.claims();
        for (name, value) in other.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        claims
    }

    async fn shown(&self, token: &str) -> Answer {
        send_as(&self.app, token, ("GET", "/v1/agents"), "").await
    }

    async fn expect_refused(&self, token: &str, why: &str) {
        let answer = self.shown(token).await;
        assert_eq!(answer.status, 401, "{why}: {}", answer.text);
        assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"agentling\"");
        let problem = without_ids(answer.expect_problem(401, "unauthenticated"));
        let unknown = without_ids(self.shown("x").await.json());
        assert_eq!(problem, unknown, "{why}");
    }
}

#[tokio::test]
async fn a_token_of_each_algorithm_counts() {
    let keys = [IssuerKey::rsa("r"), IssuerKey::p256("p"), IssuerKey::ed25519("e")];
    let world = World::new(&keys.each_ref()).await;
    for key in &keys {
        world.shown(&key.token(&world.claims())).await.expect(200);
        let many = world.claims_but(&json!({ "aud": ["other", AUDIENCE],
                                             "scope": ["agents:read"], "nbf": 1 }));
        world.shown(&key.token(&many)).await.expect(200);
    }
    assert_eq!(world.issuer.n_fetched(), 1, "keys are remembered");
}

#[tokio::test]
async fn b29_a_token_without_a_signature_is_refused() {
    let key = IssuerKey::ed25519("k");
    let world = World::new(&[&key]).await;
    let claims = world.claims();
    for alg in ["none", "None", "NONE", "nOnE", ""] {
        let header = json!({ "alg": alg, "kid": "k" });
        world.expect_refused(&forged(&header, &claims, |_| vec![]), alg).await;
        world.expect_refused(&key.token_with(&header, &claims), alg).await;
    }
    let good = key.token(&claims);
    let (message, _) = good.rsplit_once('.').unwrap();
    for text in [message, &format!("{message}."), &format!("{good}.x"), &format!("{good}A"), ".."] {
        world.expect_refused(text, "malformed").await;
    }
    world.shown(&good).await.expect(200);
}

#[tokio::test]
async fn b29_a_token_signed_with_the_public_key_as_a_secret_is_refused() {
    let key = IssuerKey::rsa("k");
    let world = World::new(&[&key]).await;
    let jwk = key.jwk();
    let public = [jwk.to_string(), jwk["n"].as_str().unwrap().to_owned()];
    for secret in public {
        let sign = |message: &[u8]| {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
            mac.update(message);
            mac.finalize().into_bytes().to_vec()
        };
        for alg in ["HS256", "HS384", "HS512", "RS256", "ES256", "EdDSA"] {
            let header = json!({ "alg": alg, "kid": "k" });
            world.expect_refused(&forged(&header, &world.claims(), sign), alg).await;
        }
    }
}

#[tokio::test]
async fn b29_a_token_for_somebody_else_or_of_somebody_else_is_refused() {
    let key = IssuerKey::ed25519("k");
    let world = World::new(&[&key]).await;
    let url = world.issuer.url.clone();
    for other in [
        json!({ "aud": "other" }),
        json!({ "aud": null }),
        json!({ "aud": [] }),
        json!({ "aud": [["agentling-of-the-test"]] }),
        json!({ "aud": format!("{AUDIENCE} ") }),
        json!({ "iss": "https://evil.example" }),
        json!({ "iss": null }),
        json!({ "iss": [url] }),
        json!({ "iss": format!("{url}/") }),
        json!({ "tenant": null }),
        json!({ "tenant": "" }),
        json!({ "tenant": "ACME" }),
        json!({ "tenant": ["acme"] }),
        json!({ "tenant": "acme' OR ''='" }),
    ] {
        let token = key.token(&world.claims_but(&other));
        world.expect_refused(&token, &other.to_string()).await;
    }
}

#[tokio::test]
async fn b29_a_token_whose_time_is_over_or_has_not_come_is_refused() {
    let key = IssuerKey::ed25519("k");
    let world = World::new(&[&key]).await;
    let now = world.clock.now().timestamp();
    for (other, counts) in [
        (json!({ "exp": now - 61 }), false),
        (json!({ "exp": now - 58 }), true),
        (json!({ "exp": null }), false),
        (json!({ "exp": "9999999999" }), false),
        (json!({ "nbf": now + 63 }), false),
        (json!({ "nbf": now + 59 }), true),
        (json!({ "nbf": "0" }), false),
        (json!({ "nbf": false }), false),
    ] {
        let token = key.token(&world.claims_but(&other));
        if counts {
            world.shown(&token).await.expect(200);
        } else {
            world.expect_refused(&token, &other.to_string()).await;
        }
    }
    // A token that counted stops when its time is over.
    let token = key.token(&world.claims());
    world.shown(&token).await.expect(200);
    world.clock.advance(Duration::from_secs(361));
    world.expect_refused(&token, "expired meanwhile").await;
}

#[tokio::test]
async fn b29_a_token_of_a_key_that_is_not_the_issuers_is_refused_wherever_it_says_that_it_is() {
    let (key, own) = (IssuerKey::ed25519("k"), IssuerKey::ed25519("own"));
    let world = World::new(&[&key]).await;
    let evil = FakeIssuer::start(&[&own]).await;
    let url = format!("{}/keys", evil.url);
    for header in [
        json!({ "alg": "EdDSA", "kid": "own" }),
        json!({ "alg": "EdDSA", "kid": "k" }),
        json!({ "alg": "EdDSA" }),
        json!({ "alg": "EdDSA", "kid": 1 }),
        json!({ "alg": "EdDSA", "kid": "k", "jku": url }),
        json!({ "alg": "EdDSA", "kid": "own", "jku": url }),
        json!({ "alg": "EdDSA", "kid": "own", "x5u": url }),
        json!({ "alg": "EdDSA", "kid": "own", "jwk": own.jwk() }),
        json!({ "alg": "EdDSA", "kid": url }),
        json!({ "alg": "EdDSA", "kid": "../../keys" }),
        json!({ "alg": "EdDSA", "kid": "k", "crit": ["b64"], "b64": false }),
    ] {
        let token = own.token_with(&header, &world.claims());
        world.expect_refused(&token, &header.to_string()).await;
    }
    assert_eq!(evil.n_fetched(), 0, "what a token says leads nowhere");
    // The same headers change nothing about a token that is good.
    let header = json!({ "alg": "EdDSA", "kid": "k", "jku": url, "jwk": own.jwk() });
    world.shown(&key.token_with(&header, &world.claims())).await.expect(200);
    // A key is for one algorithm, and a token cannot choose another.
    let header = json!({ "alg": "RS256", "kid": "k" });
    let crossed = key.token_with(&header, &world.claims());
    world.expect_refused(&crossed, "another algorithm").await;
}

#[tokio::test]
async fn a_key_that_an_issuer_changes_is_found_and_the_old_one_stops() {
    let (old, new) = (IssuerKey::p256("old"), IssuerKey::p256("new"));
    let world = World::new(&[&old]).await;
    let token =
        |key: &IssuerKey| key.token(&world.claims_but(&json!({ "exp": 9_999_999_999_u64 })));
    world.shown(&token(&old)).await.expect(200);
    world.issuer.publish(&[&new]);
    world.expect_refused(&token(&new), "asked a moment ago").await;
    assert_eq!(world.issuer.n_fetched(), 1);
    world.clock.advance(Duration::from_mins(1));
    world.shown(&token(&new)).await.expect(200);
    assert_eq!(world.issuer.n_fetched(), 2);
    world.expect_refused(&token(&old), "withdrawn").await;
    for _ in 0..20 {
        world.expect_refused(&token(&old), "withdrawn").await;
    }
    assert_eq!(world.issuer.n_fetched(), 2, "not more often than once a minute");
}

#[tokio::test]
async fn those_who_come_at_once_share_one_question_to_the_issuer() {
    let key = IssuerKey::ed25519("k");
    let world = World::new(&[&key]).await;
    world.issuer.hold().await;
    let token = key.token(&world.claims());
    let asked = join_all((0..30).map(|_| world.shown(&token)));
    let (answers, ()) = tokio::join!(asked, async {
        while world.issuer.n_fetched() == 0 {
            tokio::task::yield_now().await;
        }
        // Whoever can do without the issuer is not held up by it.
        world.app.get("/healthz").await.expect(200);
        world.expect_refused("x", "no token at all").await;
        world.issuer.release();
    });
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert_eq!(world.issuer.n_fetched(), 1);
}

#[tokio::test]
async fn a_request_that_hangs_up_takes_no_question_to_the_issuer_with_it() {
    let key = IssuerKey::ed25519("k");
    let world = World::new(&[&key]).await;
    world.issuer.hold().await;
    let token = key.token(&world.claims());
    tokio::select! {
        answer = world.shown(&token) => panic!("{answer:?}"),
        () = async {
            while world.issuer.n_fetched() == 0 {
                tokio::task::yield_now().await;
            }
        } => {}
    }
    world.issuer.release();
    world.shown(&token).await.expect(200);
    assert_eq!(world.issuer.n_fetched(), 1);
}

#[tokio::test]
async fn an_issuer_that_is_down_holds_nobody_up_and_its_known_keys_go_on_working() {
    let (known, unknown) = (IssuerKey::ed25519("k"), IssuerKey::ed25519("u"));
    let world = World::with(&[&known], &[("AGENTLING_OIDC_TIMEOUT_MS", "100")]).await;
    let token =
        |key: &IssuerKey| key.token(&world.claims_but(&json!({ "exp": 9_999_999_999_u64 })));
    while world.shown(&token(&known)).await.status != 200 {
        // On a busy machine a tenth of a second may be too short.
        world.clock.advance(Duration::from_mins(1));
    }
    world.issuer.hold().await;
    world.clock.advance(Duration::from_mins(1));
    world.expect_refused(&token(&unknown), "the issuer says nothing").await;
    world.shown(&token(&known)).await.expect(200);
    world.issuer.release();
    world.issuer.set_broken(true);
    world.clock.advance(Duration::from_hours(1));
    world.expect_refused(&token(&unknown), "the issuer is broken").await;
    world.shown(&token(&known)).await.expect(200);
    world.clock.advance(Duration::from_hours(24));
    world.expect_refused(&token(&known), "keys are not used for ever").await;
}

#[tokio::test]
async fn a_token_opens_what_its_tenant_has_and_its_scopes_allow() {
    let key = IssuerKey::ed25519("k");
    let world = World::new(&[&key]).await;
    let token = |tenant: &str, scope: &str| {
        key.token(&world.claims_but(&json!({ "tenant": tenant, "scope": scope })))
    };
    let agent = speaker("a", "Hello.").to_string();
    let send = async |token: &str, (method, path), body: &str| {
        send_as(&world.app, token, (method, path), body).await
    };
    let writer = token("acme", "agents:write agents:read");
    send(&writer, ("POST", "/v1/agents"), &agent).await.expect(201);
    send(&writer, ("GET", "/v1/agents/a"), "").await.expect(200);
    let stranger = token("other", "admin");
    send(&stranger, ("GET", "/v1/agents/a"), "").await.expect_problem(404, "not-found");
    let listed = send(&stranger, ("GET", "/v1/agents"), "").await.expect(200);
    assert_eq!(listed["items"], json!([]));
    for scope in ["agents:read", "openid profile", "", "agents:write2"] {
        let refused = send(&token("acme", scope), ("POST", "/v1/agents"), &agent).await;
        let problem = refused.expect_problem(403, "insufficient-scope");
        assert_eq!(problem["required"], "agents:write");
    }
    // A key that an admin with a token makes belongs to the token's tenant.
    let body = json!({ "scopes": ["agents:read"] }).to_string();
    let made = send(&token("acme", "admin"), ("POST", "/v1/keys"), &body).await.expect(201);
    send(made["key"].as_str().unwrap(), ("GET", "/v1/agents/a"), "").await.expect(200);
    // What is stored names no token.
    let everything = picture_everything(&world.app.db).await;
    assert!(!everything.contains(writer.rsplit_once('.').unwrap().1));
}

#[tokio::test]
async fn the_words_of_an_issuer_mean_what_the_operator_says_and_nothing_else() {
    let key = IssuerKey::ed25519("k");
    let settings = [
        ("AGENTLING_OIDC_TENANT_CLAIM", "https://acme.example/org"),
        ("AGENTLING_OIDC_SCOPE_CLAIM", "roles"),
        ("AGENTLING_OIDC_SCOPES", "reader=agents:read, writer=agents:read, writer=agents:write"),
    ];
    let world = World::with(&[&key], &settings).await;
    let post = async |roles: Value| {
        let other = json!({ "https://acme.example/org": "acme", "tenant": "other",
                            "roles": roles, "scope": "admin" });
        let token = key.token(&world.claims_but(&other));
        let agent = speaker("a", "Hello.").to_string();
        send_as(&world.app, &token, ("PUT", "/v1/agents/a"), &agent).await
    };
    for roles in [json!(["reader"]), json!("admin"), json!(["agents:write"]), json!(null)] {
        post(roles).await.expect_problem(403, "insufficient-scope");
    }
    let answer = post(json!(["reader", "writer"])).await;
    assert_ne!(answer.status, 403, "{}", answer.text);
}

#[tokio::test]
async fn a_server_with_an_issuer_is_not_open_though_it_has_no_key() {
    let world = World::new(&[&IssuerKey::ed25519("k")]).await;
    world.app.get("/v1/agents").await.expect_problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_token_is_logged_neither_when_it_counts_nor_when_it_does_not() {
    let (key, other) = (IssuerKey::ed25519("k"), IssuerKey::ed25519("other"));
    let log = Log::default();
    let _logging = log.listen(tracing::Level::TRACE);
    let world = World::new(&[&key]).await;
    let tokens = [
        key.token(&world.claims()),
        other.token(&world.claims()),
        key.token(&world.claims_but(&json!({ "aud": "other", "email": "canary@example.com" }))),
        key.token(&world.claims_but(&json!({ "exp": 1 }))),
    ];
    for token in &tokens {
        world.shown(token).await;
    }
    world.issuer.set_broken(true);
    world.clock.advance(Duration::from_mins(1));
    world.shown(&tokens[1]).await;
    let said = log.said();
    for reason in ["for somebody else", "it has expired", "no such key", "cannot be had"] {
        assert!(said.contains(reason), "{reason}: {said}");
    }
    for piece in tokens.iter().flat_map(|token| token.split('.').skip(1)) {
        assert!(!said.contains(piece), "{said}");
    }
    assert!(!said.contains("canary@example.com"), "{said}");
}
