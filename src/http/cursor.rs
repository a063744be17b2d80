//! Cursors: where a list goes on, sealed so that only the list that made one can read it.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use subtle::ConstantTimeEq as _;

use crate::domain::id::TenantId;
use crate::domain::memory::Finding;
use crate::domain::page::{DEFAULT_LIMIT, MAX_LIMIT, PageRequest};
use crate::http::mac;
use crate::http::problem::{Problem, ProblemKind};

/// Bytes of the seal. Half of the hash is plenty for a value that opens nothing by itself.
const SEAL_BYTES: usize = 16;

/// Makes and reads cursors.
#[derive(Clone)]
pub struct Cursors {
    key: [u8; 32],
}

impl std::fmt::Debug for Cursors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cursors")
    }
}

/// The list that a cursor belongs to: another tenant, route or filter makes it invalid.
#[derive(Debug)]
pub struct CursorScope<'a> {
    tenant: &'a TenantId,
    route: &'a str,
    filters: String,
}

impl<'a> CursorScope<'a> {
    /// `route` is the path, ids included; `filters` is what narrows the list, without limit and
    /// cursor.
    pub fn new(tenant: &'a TenantId, route: &'a str, filters: &impl Serialize) -> Self {
        Self { tenant, route, filters: serde_json::to_string(filters).unwrap_or_default() }
    }
}

impl Cursors {
    /// With a key made from a secret that all replicas share and that outlives restarts.
    pub fn of(secret: &[u8]) -> Self {
        Self { key: mac::derive("seal of cursors", secret) }
    }

    /// Seals the key of a page's last entry.
    pub fn seal(&self, scope: &CursorScope<'_>, key: &impl Serialize) -> String {
        let payload = serde_json::to_vec(key).unwrap_or_default();
        let mut token = self.mac(scope, &payload).to_vec();
        token.extend_from_slice(&payload);
        URL_SAFE_NO_PAD.encode(token)
    }

    /// Opens a cursor of the same list.
    pub fn open<K: DeserializeOwned>(
        &self,
        scope: &CursorScope<'_>,
        cursor: &str,
    ) -> Result<K, Problem> {
        self.read(scope, cursor).ok_or_else(|| {
            let detail = "the cursor was not made by this list with these filters";
            Problem::new(ProblemKind::InvalidCursor, detail)
        })
    }

    /// Opens a cursor if there is one.
    pub fn open_opt<K: DeserializeOwned>(
        &self,
        scope: &CursorScope<'_>,
        cursor: Option<&str>,
    ) -> Result<Option<K>, Problem> {
        cursor.map(|cursor| self.open(scope, cursor)).transpose()
    }

    /// The page that a caller of a list asks for.
    pub fn page<K: DeserializeOwned>(
        &self,
        scope: &CursorScope<'_>,
        limit: Option<u32>,
        cursor: Option<&str>,
    ) -> Result<PageRequest<K>, Problem> {
        let limit = limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            let message = format!("must be from 1 to {MAX_LIMIT}");
            let finding = Finding::new("limit", "out_of_range", message);
            return Err(Problem::with_errors(ProblemKind::InvalidParameter, vec![finding]));
        }
        Ok(PageRequest { limit, after: self.open_opt(scope, cursor)? })
    }

    fn read<K: DeserializeOwned>(&self, scope: &CursorScope<'_>, cursor: &str) -> Option<K> {
        let token = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (seal, payload) = token.split_at_checked(SEAL_BYTES)?;
        let genuine: bool = self.mac(scope, payload).ct_eq(seal).into();
        genuine.then(|| serde_json::from_slice(payload).ok()).flatten()
    }

    fn mac(&self, scope: &CursorScope<'_>, payload: &[u8]) -> [u8; SEAL_BYTES] {
        let tenant = scope.tenant.as_str().as_bytes();
        let whole = mac::of(
            &self.key,
            &[tenant, scope.route.as_bytes(), scope.filters.as_bytes(), payload],
        );
        let mut seal = [0; SEAL_BYTES];
        seal.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
        seal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope<'a>(tenant: &'a TenantId, filter: &str) -> CursorScope<'a> {
        CursorScope::new(tenant, "/v1/runs", &[filter])
    }

    #[test]
    fn a_cursor_opens_for_the_list_that_made_it_and_no_other() {
        let cursors = Cursors::of(b"seven");
        let (ours, theirs) = (TenantId::default(), TenantId::parse("other").unwrap());
        let cursor = cursors.seal(&scope(&ours, "failed"), &(41_i64, "x"));
        assert_eq!(
            cursors.open::<(i64, String)>(&scope(&ours, "failed"), &cursor).unwrap(),
            (41, "x".to_owned())
        );
        let foreign = [scope(&theirs, "failed"), scope(&ours, "queued")];
        for scope in foreign {
            let problem = cursors.open::<(i64, String)>(&scope, &cursor).unwrap_err();
            assert_eq!(problem.kind(), ProblemKind::InvalidCursor);
        }
        let other_key = Cursors::of(b"eight");
        assert!(other_key.open::<(i64, String)>(&scope(&ours, "failed"), &cursor).is_err());
    }

    #[test]
    fn a_tampered_cursor_is_invalid_whatever_was_changed() {
        let cursors = Cursors::of(b"seven");
        let tenant = TenantId::default();
        let cursor = cursors.seal(&scope(&tenant, ""), &41_i64);
        for index in 0..cursor.len() {
            let mut bytes = cursor.clone().into_bytes();
            bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
            let tampered = String::from_utf8(bytes).unwrap();
            assert!(cursors.open::<i64>(&scope(&tenant, ""), &tampered).is_err(), "{tampered}");
        }
        for broken in ["", "!", "AAAA", "ä"] {
            assert!(cursors.open::<i64>(&scope(&tenant, ""), broken).is_err(), "{broken}");
        }
    }
}
