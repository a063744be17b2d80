//! Whose work is being done. Where row-level security is on, a connection sees the rows of that tenant and
//! no others, whatever a statement says.
//!
//! The tenant of a request is that of its credential, the tenant of a run that of its claim: neither is
//! what statements are given, so that a mistake in what they are given is not repeated here.

use futures::future::Either;

use crate::domain::id::TenantId;

tokio::task_local! {
    static TENANT: TenantId;
}

/// Does work of a tenant.
pub async fn within<T>(tenant: &TenantId, work: impl Future<Output = T>) -> T {
    TENANT.scope(tenant.clone(), work).await
}

/// The same work in a task of its own, for the tenant for whom it is begun here.
pub fn carried<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    match tenant() {
        Some(tenant) => Either::Left(TENANT.scope(tenant, work)),
        None => Either::Right(work),
    }
}

/// The tenant whose work is being done.
pub(super) fn tenant() -> Option<TenantId> {
    TENANT.try_with(Clone::clone).ok()
}

#[cfg(test)]
mod tests {
    use futures::future;
    use tokio::task::JoinSet;

    use super::*;

    fn name() -> Option<String> {
        tenant().map(|tenant| tenant.to_string())
    }

    fn named() -> impl Future<Output = Option<String>> {
        future::lazy(|_| name())
    }

    async fn spawned(
        work: impl Future<Output = Option<String>> + Send + 'static,
    ) -> Option<String> {
        JoinSet::from_iter([work]).join_next().await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn work_has_the_tenant_it_was_begun_for_also_in_a_task_of_its_own() {
        let of = |name: &str| TenantId::parse(name).unwrap();
        assert_eq!(name(), None);
        let (inner, after, there, lost) = within(&of("a"), async {
            let inner = within(&of("b"), named()).await;
            let there = spawned(carried(named())).await;
            (inner, name(), there, spawned(named()).await)
        })
        .await;
        assert_eq!((inner.as_deref(), after.as_deref()), (Some("b"), Some("a")));
        assert_eq!((there.as_deref(), lost), (Some("a"), None));
        assert_eq!(spawned(carried(named())).await, None);
    }
}
