//! The chain of bases, and what was kept before there was a ledger.

use std::sync::Arc;
use std::time::Duration;

use agentling::clock::{Clock as _, Ids as _, System};
use agentling::domain::id::{RequestId, TenantId, ThreadId};
use agentling::domain::ledger::{Encoded, Origin, Purpose, RequestOutcome, Span, Voice};
use agentling::domain::model::Provider;
use agentling::domain::request::BodyHash;
use agentling::store::Store;
use agentling::store::ledger::{self, Bytes, NewRequest, PackedBody, Recorded};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use sqlx::Connection as _;

use crate::support::{TestDb, accepted, count, execute};

/// A conversation of so many messages.
fn request(n: usize) -> Encoded {
    let mut request = Encoded { body: b"{\"messages\":[".to_vec(), ..Encoded::default() };
    request.conversation_at = request.body.len();
    let write = |request: &mut Encoded, text: &str, origin: &Origin| {
        let start = request.body.len() as u64;
        request.body.extend_from_slice(text.as_bytes());
        let end = request.body.len() as u64;
        match request.spans.last_mut() {
            Some(last) if last.origin == *origin => last.end = end,
            _ => request.spans.push(Span { start, end, origin: origin.clone() }),
        }
    };
    request.spans.push(Span { start: 0, end: 13, origin: Origin::WIRE.clone() });
    for seq in 1..=n {
        write(&mut request, if seq == 1 { "{\"" } else { ",{\"" }, Origin::WIRE);
        let origin = Origin::step(i64::try_from(seq).unwrap(), 0, Voice::User);
        write(&mut request, &format!("message {seq} {}", "x".repeat(60)), &origin);
        write(&mut request, "\"}", Origin::WIRE);
    }
    write(&mut request, "]}", Origin::WIRE);
    request
}

fn recorded(request: &Encoded, bases: &[(RequestId, &Encoded)]) -> Recorded {
    let clock = System::new();
    let request = NewRequest {
        id: RequestId::from(clock.sortable()),
        turn: 0,
        attempt: 1,
        purpose: Purpose::Reply,
        provider: Provider::Openai,
        model: "m".to_owned(),
        taken: None,
        endpoint: "/v1/chat/completions".to_owned(),
        header_names: vec!["content-type".to_owned()],
        profile: json!({}),
        renderer: 1,
        sha256: BodyHash(Sha256::digest(&request.body).into()),
        bytes: request.body.len() as u64,
        body: PackedBody::of(request, bases),
        sent_at: clock.now(),
        first_byte_after: None,
        took: Duration::from_millis(3),
        status: None,
        outcome: RequestOutcome::Abandoned,
        error: None,
        response: None,
        response_type: None,
    };
    Recorded { request: Arc::new(request), step_seq: None }
}

async fn body(store: &Store, tenant: &TenantId, id: RequestId) -> Option<Encoded> {
    match ledger::body(store, tenant, id, true).await.unwrap()? {
        Bytes::Kept(body) => Some(body.request),
        Bytes::NotKept => None,
    }
}

#[tokio::test]
async fn the_body_of_a_thousandth_turn_is_put_together_from_all_of_them() {
    let (db, tenant) = (TestDb::new().await, TenantId::default());
    let store = db.store();
    let thread: ThreadId = accepted(&store).await.run.thread_id;
    let requests: Vec<Encoded> = (1..=1_000).map(request).collect();
    let mut rows: Vec<Recorded> = Vec::new();
    for (n, one) in requests.iter().enumerate() {
        let before = n.checked_sub(1).map(|n| (rows[n].request.id, &requests[n]));
        rows.push(recorded(one, before.as_slice()));
    }
    ledger::record(&store, &tenant, thread, &rows).await.unwrap();
    for n in [0, 1, 9, 499, 999] {
        assert_eq!(body(&store, &tenant, rows[n].request.id).await.as_ref(), Some(&requests[n]));
    }
    let links = "SELECT count(*) FROM model_request WHERE base_id IS NOT NULL";
    assert_eq!(count(&db, links).await, 999);
    // Each stores its own message and no other.
    let longest =
        "SELECT max(octet_length(conversation) + octet_length(head))::bigint FROM model_request";
    assert!(count(&db, longest).await < 200);
    let other = TenantId::parse("other").unwrap();
    assert_eq!(body(&store, &other, rows[999].request.id).await, None);
}

#[tokio::test]
async fn replies_that_were_kept_with_their_steps_are_in_the_ledger_without_a_body() {
    let db = TestDb::empty().await;
    let mut connection = db.connect().await;
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut files: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_unstable();
    let mut apply = async |number: &str| {
        for file in files.iter().filter(|file| file.to_string_lossy().contains(number)) {
            let text = std::fs::read_to_string(file).unwrap();
            let script = sqlx::raw_sql(sqlx::AssertSqlSafe(text));
            connection.transaction(|tx| Box::pin(script.execute(&mut **tx))).await.unwrap();
        }
    };
    for number in ["0001_", "0002_", "0003_", "0004_", "0005_", "0006_"] {
        apply(number).await;
    }
    execute(&db, OLD_THREAD).await;
    execute(&db, OLD_STEPS).await;
    apply("0007_").await;
    let carried = "SELECT count(*) FROM model_request
                    WHERE provider = 'openai' AND head IS NULL AND response = 'data: x'
                      AND bytes = 5 AND step_seq = 2 AND attempt = 2";
    assert_eq!(count(&db, carried).await, 1);
    assert_eq!(count(&db, "SELECT count(*) FROM model_request").await, 1);
    let id = RequestId::from(uuid::Uuid::from_u128(2));
    let (store, tenant) = (db.store(), TenantId::default());
    assert_eq!(ledger::body(&store, &tenant, id, false).await.unwrap(), Some(Bytes::NotKept));
    let response = ledger::response(&store, &tenant, id).await.unwrap();
    assert_eq!(response, Some(Bytes::Kept(b"data: x".to_vec())));
    let entry = ledger::get(&store, &tenant, id).await.unwrap().unwrap();
    assert_eq!(
        (entry.is_kept, entry.sent_at, entry.provider),
        (false, None, Some(Provider::Openai))
    );
}

const OLD_THREAD: &str = "
    INSERT INTO thread (tenant_id, thread_id, framing_policy, metadata, created_at, updated_at)
    VALUES ('default', '00000000-0000-0000-0000-00000000000a', 'frames', '{}', now(), now())";

const OLD_STEPS: &str = r#"
    INSERT INTO step (tenant_id, thread_id, seq, step_id, turn, attempt, kind, op_id, epoch, content,
                      raw_reply, request_bytes, request_shared_bytes, request_sha256, request_from,
                      created_at)
    VALUES ('default', '00000000-0000-0000-0000-00000000000a', 1,
            '00000000-0000-0000-0000-000000000001', 0, 0, 'task',
            '00000000-0000-0000-0000-00000000000b', 0, '{}', NULL, NULL, NULL, NULL, NULL, now()),
           ('default', '00000000-0000-0000-0000-00000000000a', 2,
            '00000000-0000-0000-0000-000000000002', 1, 2, 'action',
            '00000000-0000-0000-0000-00000000000b', 0, '{"reply": {"provider": "openai"}}', 'data: x',
            5, 0, decode(repeat('00', 32), 'hex'), 1, now())"#;
