//! Reading the bytes of requests and of what came back.

use super::TABLE;
use super::pack::Packed;
use super::rebuild::{Link, Piece, is_tiled, rebuilt};
use crate::domain::id::{RequestId, TenantId};
use crate::domain::ledger::Encoded;
use crate::domain::request::BodyHash;
use crate::store::gated::GatedPool;
use crate::store::rows::At;
use crate::store::steps::body_hash;
use crate::store::{Store, StoreError};

/// What there is of the bytes of something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bytes<T> {
    /// All of them.
    Kept(T),
    /// They, or those that they are made of, are not kept.
    NotKept,
}

/// A request body, checked against its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBody {
    /// The request.
    pub request: Encoded,
    /// The hash of its body.
    pub sha256: BodyHash,
}

/// A request body, put together along the chain of its bases; its spans too, when they are asked for.
/// `None` when there is no such request.
///
/// # Errors
/// [`StoreError::Inconsistent`] when what comes out is not what was sent.
pub async fn body(
    store: &Store,
    tenant: &TenantId,
    id: RequestId,
    with_spans: bool,
) -> Result<Option<Bytes<StoredBody>>, StoreError> {
    chain(store.api(), tenant, id, with_spans).await
}

/// The same with its spans, for a worker.
///
/// # Errors
/// As those of [`body`].
pub async fn base(
    store: &Store,
    tenant: &TenantId,
    id: RequestId,
) -> Result<Option<Bytes<StoredBody>>, StoreError> {
    chain(store.worker(), tenant, id, true).await
}

async fn chain(
    pool: &GatedPool,
    tenant: &TenantId,
    id: RequestId,
    with_spans: bool,
) -> Result<Option<Bytes<StoredBody>>, StoreError> {
    // The bytes of a base are read as far as they are needed. The bound on the depth is for rows that
    // someone made a ring of.
    let rows = sqlx::query_as!(
        LinkRow,
        r#"WITH RECURSIVE chain AS (
               SELECT 0 AS depth, base_id, 9223372036854775807 AS head_needed, head_shared, head,
                      head_encoding, 9223372036854775807 AS conversation_needed, conversation_shared,
                      conversation, conversation_encoding, spans, sha256
                 FROM model_request
                WHERE tenant_id = $1
                  AND request_id = $2
                UNION ALL
               SELECT c.depth + 1, b.base_id, least(c.head_needed, c.head_shared), b.head_shared,
                      b.head, b.head_encoding, least(c.conversation_needed, c.conversation_shared),
                      b.conversation_shared, b.conversation, b.conversation_encoding, b.spans, b.sha256
                 FROM chain c
                 JOIN model_request b
                   ON b.tenant_id = $1
                  AND b.request_id = c.base_id
                WHERE c.depth < 100000
           )
           SELECT depth AS "depth!", head_needed AS "head_needed!", head_shared AS "head_shared!",
                  CASE WHEN head_needed > head_shared THEN head END AS head,
                  head_encoding, conversation_needed AS "conversation_needed!",
                  conversation_shared AS "conversation_shared!",
                  CASE WHEN conversation_needed > conversation_shared THEN conversation END
                      AS conversation,
                  conversation_encoding,
                  CASE WHEN $3 AND (head_needed > head_shared
                                    OR conversation_needed > conversation_shared)
                       THEN spans END AS spans,
                  CASE WHEN depth = 0 THEN sha256 END AS sha256
             FROM chain
            ORDER BY depth DESC"#,
        tenant.as_str(),
        id.uuid(),
        with_spans
    )
    .fetch_all(pool)
    .await
    .map_err(StoreError::of_read)?;
    let Some(last) = rows.last() else { return Ok(None) };
    if rows.iter().any(|row| row.head_encoding.is_none()) {
        return Ok(Some(Bytes::NotKept));
    }
    let at = At { table: TABLE, id: &id };
    let sha256 = body_hash(&at, last.sha256.as_deref().unwrap_or_default())?;
    let links = rows.into_iter().map(|row| row.link(&at)).collect::<Result<_, _>>()?;
    let request = rebuilt(links, &sha256).ok_or_else(|| at.wrong("sha256"))?;
    if with_spans && !is_tiled(&request) {
        return Err(at.wrong("spans"));
    }
    Ok(Some(Bytes::Kept(StoredBody { request, sha256 })))
}

struct LinkRow {
    #[expect(dead_code, reason = "rows are ordered by it")]
    depth: i32,
    head_needed: i64,
    head_shared: i64,
    head: Option<Vec<u8>>,
    head_encoding: Option<String>,
    conversation_needed: i64,
    conversation_shared: i64,
    conversation: Option<Vec<u8>>,
    conversation_encoding: Option<String>,
    spans: Option<Vec<u8>>,
    sha256: Option<Vec<u8>>,
}

impl LinkRow {
    fn link(self, at: &At<'_, RequestId>) -> Result<Link, StoreError> {
        let head = (self.head_needed, self.head_shared);
        let conversation = (self.conversation_needed, self.conversation_shared);
        Ok(Link {
            head: piece(at, head, packed(at, self.head, self.head_encoding.as_deref())?)?,
            conversation: piece(
                at,
                conversation,
                packed(at, self.conversation, self.conversation_encoding.as_deref())?,
            )?,
            spans: self.spans,
        })
    }
}

fn piece(
    at: &At<'_, RequestId>,
    (needed, shared): (i64, i64),
    new: Option<Packed>,
) -> Result<Piece, StoreError> {
    Ok(Piece {
        needed: at.count("head_shared", needed)?,
        shared: at.count("head_shared", shared)?,
        new,
    })
}

fn packed(
    at: &At<'_, RequestId>,
    bytes: Option<Vec<u8>>,
    encoding: Option<&str>,
) -> Result<Option<Packed>, StoreError> {
    let encoding = at.label_opt("head_encoding", encoding)?;
    Ok(bytes.zip(encoding).map(|(bytes, encoding)| Packed { bytes, encoding }))
}

/// What came back for a request. `None` when there is no such request.
///
/// # Errors
/// [`StoreError::Inconsistent`] when the stored bytes do not read.
pub async fn response(
    store: &Store,
    tenant: &TenantId,
    id: RequestId,
) -> Result<Option<Bytes<Vec<u8>>>, StoreError> {
    let row = sqlx::query!(
        "SELECT response, response_encoding FROM model_request WHERE tenant_id = $1 AND request_id = $2",
        tenant.as_str(),
        id.uuid()
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let Some(row) = row else { return Ok(None) };
    let at = At { table: TABLE, id: &id };
    let Some(packed) = packed(&at, row.response, row.response_encoding.as_deref())? else {
        return Ok(Some(Bytes::NotKept));
    };
    Ok(Some(Bytes::Kept(packed.opened().ok_or_else(|| at.wrong("response"))?)))
}
