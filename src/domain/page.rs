//! Pages of lists.

use chrono::{DateTime, Utc};

use super::agent::Metadata;

/// How many entries a page has when the caller does not say.
pub const DEFAULT_LIMIT: u32 = 20;

/// The most entries a page can have.
pub const MAX_LIMIT: u32 = 200;

/// What narrows a list of resources, whatever they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Only those that have all of these labels.
    pub metadata: Metadata,
    /// Only those created after this moment.
    pub created_after: Option<DateTime<Utc>>,
    /// Only those created before this moment.
    pub created_before: Option<DateTime<Utc>>,
}

/// Which page is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest<K> {
    /// 1–[`MAX_LIMIT`].
    pub limit: u32,
    /// The last key of the page before; `None` for the first page.
    pub after: Option<K>,
}

/// A page and the key to go on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, K> {
    /// The entries.
    pub items: Vec<T>,
    /// The key of the last entry when there are more.
    pub next: Option<K>,
}

impl<T, K> Page<T, K> {
    /// Makes a page of rows that were asked for with `limit + 1`, so that one too many says "more".
    pub fn of(mut rows: Vec<T>, limit: u32, key: impl Fn(&T) -> K) -> Self {
        let limit = limit as usize;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = if more { rows.last().map(key) } else { None };
        Self { items: rows, next }
    }

    /// The same page of other entries.
    pub fn map<U>(self, f: impl FnMut(T) -> U) -> Page<U, K> {
        Page { items: self.items.into_iter().map(f).collect(), next: self.next }
    }

    /// The same page of other entries, unless one of them cannot be made.
    ///
    /// # Errors
    /// With what came of the first that cannot.
    pub fn try_map<U, E>(self, f: impl FnMut(T) -> Result<U, E>) -> Result<Page<U, K>, E> {
        let items = self.items.into_iter().map(f).collect::<Result<_, E>>()?;
        Ok(Page { items, next: self.next })
    }
}
