//! Looks for items: by where they are, by what members are, by words, and by what they are near to.

use super::{HitRow, range};
use crate::domain::id::TenantId;
use crate::domain::memory_item::{Hit, ItemKey, ItemSearch, Namespace};
use crate::domain::page::{Page, PageRequest};
use crate::store::gated::GatedPool;
use crate::store::rows::to_json;
use crate::store::{Store, StoreError};

/// The place of an item in what was found: the bits of its score, where there is one, and its name.
pub type HitKey = (Option<u32>, Namespace, ItemKey);

type Found = Page<Hit, HitKey>;

/// Finds items. Without words and without a vector they come in the order of their namespaces and keys; with
/// words those that fit best come first, and with a vector those that are nearest to it.
///
/// # Errors
/// When the database does not answer, or is to compare vectors and cannot.
pub async fn search(
    store: &Store,
    tenant: &TenantId,
    search: &ItemSearch,
    page: &PageRequest<HitKey>,
) -> Result<Found, StoreError> {
    find(store.api(), tenant, search, page).await
}

/// The same for a tool of a run.
///
/// # Errors
/// As [`search`].
pub async fn search_for_run(
    store: &Store,
    tenant: &TenantId,
    search: &ItemSearch,
    page: &PageRequest<HitKey>,
) -> Result<Found, StoreError> {
    find(store.worker(), tenant, search, page).await
}

/// Whether the database can compare vectors.
///
/// # Errors
/// When the database does not answer.
pub async fn compares_vectors(store: &Store) -> Result<bool, StoreError> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'vector') AS "does!""#
    )
    .fetch_one(store.api())
    .await
    .map_err(StoreError::of_read)
}

async fn find(
    pool: &GatedPool,
    tenant: &TenantId,
    search: &ItemSearch,
    page: &PageRequest<HitKey>,
) -> Result<Found, StoreError> {
    let wanted = Wanted::of(tenant, search, page)?;
    let rows = match (&search.vector, &search.query) {
        (Some(vector), words) => near(pool, &wanted, vector, words.as_deref()).await,
        (None, Some(words)) => fitting(pool, &wanted, words).await,
        (None, None) => listed(pool, &wanted).await,
    };
    let hits = rows.map_err(StoreError::of_read)?.into_iter().map(Hit::try_from);
    let hits: Vec<Hit> = hits.collect::<Result<_, _>>()?;
    Ok(Page::of(hits, page.limit, |hit| {
        let place = hit.item.place.clone();
        (hit.score.map(f32::to_bits), place.namespace, place.key)
    }))
}

/// What every statement is told.
struct Wanted<'a> {
    tenant: &'a str,
    from: Vec<String>,
    to: Vec<Option<String>>,
    /// The members that are compared, as JSON arrays of what leads to each, and what each has to be.
    members: Vec<String>,
    values: Vec<String>,
    after_score: Option<f32>,
    after: Vec<String>,
    after_key: &'a str,
    limit: i64,
}

impl<'a> Wanted<'a> {
    fn of(
        tenant: &'a TenantId,
        search: &ItemSearch,
        page: &'a PageRequest<HitKey>,
    ) -> Result<Self, StoreError> {
        let (from, to) = range(&search.prefix, search.only_here);
        let members = search.filter.iter().map(|(path, _)| to_json(path));
        let values = search.filter.iter().map(|(_, value)| to_json(value));
        // Every key comes after the empty text, so that a first page begins before the first item.
        let (after, after_key) = match &page.after {
            Some((_, namespace, key)) => (namespace.parts().to_vec(), key.as_str()),
            None => (from.clone(), ""),
        };
        Ok(Self {
            tenant: tenant.as_str(),
            from,
            to,
            members: members.collect::<Result<_, _>>()?,
            values: values.collect::<Result<_, _>>()?,
            after_score: page.after.as_ref().and_then(|key| key.0).map(f32::from_bits),
            after,
            after_key,
            limit: i64::from(page.limit) + 1,
        })
    }
}

/// In the order of names, which is that of the primary key.
async fn listed(pool: &GatedPool, wanted: &Wanted<'_>) -> Result<Vec<HitRow>, sqlx::Error> {
    sqlx::query_as!(
        HitRow,
        r#"SELECT i.namespace, i.key, i.version, v.value AS "value!", i.created_at, i.updated_at,
                  i.expires_at, NULL::real AS score
             FROM memory_item i
             JOIN memory_item_version v
               ON v.tenant_id = i.tenant_id
              AND v.namespace = i.namespace
              AND v.key = i.key
              AND v.version = i.version
            WHERE i.tenant_id = $1
              AND (i.namespace, i.key) > ($2::text[], $3::text)
              AND i.namespace < $4::text[]
              AND i.document IS NOT NULL
              AND (i.expires_at IS NULL OR i.expires_at > now())
              AND NOT EXISTS (
                  SELECT 1
                    FROM unnest($5::text[], $6::text[]) AS wanted(path, value)
                   WHERE i.document #> ARRAY(SELECT jsonb_array_elements_text(wanted.path::jsonb))
                         IS DISTINCT FROM wanted.value::jsonb)
            ORDER BY i.namespace, i.key
            LIMIT $7"#,
        wanted.tenant,
        &wanted.after,
        wanted.after_key,
        &wanted.to as &[Option<String>],
        &wanted.members,
        &wanted.values,
        wanted.limit
    )
    .fetch_all(pool)
    .await
}

/// Those whose words fit, the best first.
async fn fitting(
    pool: &GatedPool,
    wanted: &Wanted<'_>,
    words: &str,
) -> Result<Vec<HitRow>, sqlx::Error> {
    sqlx::query_as!(
        HitRow,
        r#"SELECT f.namespace AS "namespace!", f.key AS "key!", f.version AS "version!",
                  v.value AS "value!", f.created_at AS "created_at!", f.updated_at AS "updated_at!",
                  f.expires_at, f.score
             FROM (SELECT i.*, ts_rank_cd(i.words, websearch_to_tsquery('simple', $7)) AS score
                     FROM memory_item i
                    WHERE i.tenant_id = $1
                      AND i.namespace >= $2::text[]
                      AND i.namespace < $3::text[]
                      AND i.document IS NOT NULL
                      AND (i.expires_at IS NULL OR i.expires_at > now())
                      AND i.words @@ websearch_to_tsquery('simple', $7)
                      AND NOT EXISTS (
                          SELECT 1
                            FROM unnest($4::text[], $5::text[]) AS wanted(path, value)
                           WHERE i.document #> ARRAY(SELECT jsonb_array_elements_text(wanted.path::jsonb))
                                 IS DISTINCT FROM wanted.value::jsonb)) f
             JOIN memory_item_version v
               ON v.tenant_id = f.tenant_id
              AND v.namespace = f.namespace
              AND v.key = f.key
              AND v.version = f.version
            WHERE $8::real IS NULL
               OR (- f.score, f.namespace, f.key) > (- $8::real, $9::text[], $10::text)
            ORDER BY f.score DESC, f.namespace, f.key
            LIMIT $6"#,
        wanted.tenant,
        &wanted.from,
        &wanted.to as &[Option<String>],
        &wanted.members,
        &wanted.values,
        wanted.limit,
        words,
        wanted.after_score,
        &wanted.after,
        wanted.after_key
    )
    .fetch_all(pool)
    .await
}

/// Those that are near to a vector, the nearest first; the score is the cosine distance. Only embeddings of as
/// many numbers are compared, and all of them in the namespace are.
const NEAR: &str = r"SELECT f.namespace, f.key, f.version, v.value, f.created_at, f.updated_at,
                  f.expires_at, f.score
             FROM (SELECT i.*,
                          CASE WHEN cardinality(i.embedding) = cardinality($7::real[])
                               THEN (i.embedding::vector <=> $7::real[]::vector)::real END AS score
                     FROM memory_item i
                    WHERE i.tenant_id = $1
                      AND i.namespace >= $2::text[]
                      AND i.namespace < $3::text[]
                      AND i.document IS NOT NULL
                      AND (i.expires_at IS NULL OR i.expires_at > now())
                      AND ($11::text IS NULL OR i.words @@ websearch_to_tsquery('simple', $11))
                      AND NOT EXISTS (
                          SELECT 1
                            FROM unnest($4::text[], $5::text[]) AS wanted(path, value)
                           WHERE i.document #> ARRAY(SELECT jsonb_array_elements_text(wanted.path::jsonb))
                                 IS DISTINCT FROM wanted.value::jsonb)) f
             JOIN memory_item_version v
               ON v.tenant_id = f.tenant_id
              AND v.namespace = f.namespace
              AND v.key = f.key
              AND v.version = f.version
            WHERE f.score IS NOT NULL
              AND ($8::real IS NULL OR (f.score, f.namespace, f.key) > ($8, $9::text[], $10::text))
            ORDER BY f.score, f.namespace, f.key
            LIMIT $6";

async fn near(
    pool: &GatedPool,
    wanted: &Wanted<'_>,
    vector: &[f32],
    words: Option<&str>,
) -> Result<Vec<HitRow>, sqlx::Error> {
    // The operator is the extension's, which the schema that statements are checked against does not have.
    sqlx::query_as(NEAR)
        .bind(wanted.tenant)
        .bind(&wanted.from)
        .bind(&wanted.to)
        .bind(&wanted.members)
        .bind(&wanted.values)
        .bind(wanted.limit)
        .bind(vector)
        .bind(wanted.after_score)
        .bind(&wanted.after)
        .bind(wanted.after_key)
        .bind(words)
        .fetch_all(pool)
        .await
}
