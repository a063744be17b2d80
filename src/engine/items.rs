//! Items of long-term memory, as tools that remember reach them.

use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::domain::id::{CallId, TenantId};
use crate::domain::memory_item::{Hit, ItemFacts, ItemPlace, ItemPut, ItemSearch, MemoryItem};
use crate::domain::page::PageRequest;
use crate::store::{Store, StoreError, memory_items};
use crate::tools::memory::{Items, ItemsUnreached};

/// Items in the store.
#[derive(Debug, Clone)]
pub struct StoredItems(pub Store);

impl Items for StoredItems {
    fn put<'a>(
        &'a self,
        tenant: &'a TenantId,
        put: &'a ItemPut,
        call: &'a CallId,
    ) -> BoxFuture<'a, Result<ItemFacts, ItemsUnreached>> {
        async move {
            let mut done = memory_items::put_by_call(&self.0, tenant, put, call).await;
            // Whether it was put or not, it is put once.
            if done.as_ref().is_err_and(StoreError::is_passing) {
                done = memory_items::put_by_call(&self.0, tenant, put, call).await;
            }
            done.map_err(|error| unreached(tenant, &error))
        }
        .boxed()
    }

    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        place: &'a ItemPlace,
    ) -> BoxFuture<'a, Result<Option<MemoryItem>, ItemsUnreached>> {
        async move {
            let found = memory_items::get_for_run(&self.0, tenant, place).await;
            found.map_err(|error| unreached(tenant, &error))
        }
        .boxed()
    }

    fn search<'a>(
        &'a self,
        tenant: &'a TenantId,
        search: &'a ItemSearch,
        limit: u32,
    ) -> BoxFuture<'a, Result<Vec<Hit>, ItemsUnreached>> {
        async move {
            let page = PageRequest { limit, after: None };
            let found = memory_items::search_for_run(&self.0, tenant, search, &page).await;
            found.map(|page| page.items).map_err(|error| unreached(tenant, &error))
        }
        .boxed()
    }
}

fn unreached(tenant: &TenantId, error: &StoreError) -> ItemsUnreached {
    tracing::warn!(%tenant, %error, source = ?error, "items of memory cannot be reached");
    ItemsUnreached
}
