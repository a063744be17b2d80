//! What is found under a prefix, against a map that has the same items.

use std::collections::BTreeMap;
use std::time::Duration;

use agentling::domain::id::TenantId;
use agentling::domain::memory_item::{
    ItemPlace, ItemPut, ItemSearch, ItemValue, Namespace, Prefix,
};
use agentling::domain::page::PageRequest;
use agentling::store::{Store, memory_items};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use crate::support::{TestDb, assert_invariants, execute};

/// Parts that sort in every which way, and that are each other's prefixes.
const PARTS: [&str; 9] = ["a", "aa", "B", "b", "1", "10", "2", "-", "a.b"];
const KEYS: [&str; 6] = ["k", "K", "é", "10", "9", "k k"];

/// What is done to an item.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Put(u32),
    PutForAMoment,
    Delete,
    Purge,
    Redact,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        8 => (0..1_000_u32).prop_map(Deed::Put),
        1 => Just(Deed::PutForAMoment),
        1 => Just(Deed::Delete),
        1 => Just(Deed::Purge),
        1 => Just(Deed::Redact),
    ]
}

fn namespace() -> impl Strategy<Value = Vec<&'static str>> {
    proptest::collection::vec(proptest::sample::select(&PARTS[..]), 1..4)
}

fn place(namespace: &[&str], key: &str) -> ItemPlace {
    let parts: Vec<String> = namespace.iter().map(|part| (*part).to_owned()).collect();
    ItemPlace { namespace: parts.try_into().unwrap(), key: key.parse().unwrap() }
}

type Model = BTreeMap<(Vec<String>, String), u32>;

async fn write(store: &Store, tenant: &TenantId, place: &ItemPlace, n: u32, ttl: Option<Duration>) {
    let (place, value) = (place.clone(), ItemValue::of(&n.to_string()).unwrap());
    let put = ItemPut { place, value, ttl, embedding: None };
    memory_items::put(store, tenant, &put).await.unwrap();
}

async fn redact(store: &Store, tenant: &TenantId, place: &ItemPlace) {
    let Some(item) = memory_items::get(store, tenant, place).await.unwrap() else { return };
    let what = memory_items::Redacted { version: item.facts.version, by: None };
    memory_items::redact(store, tenant, place, what).await.unwrap().unwrap();
}

/// Does something to the store and to the map.
async fn act(store: &Store, tenant: &TenantId, place: &ItemPlace, deed: Deed, model: &mut Model) {
    let name = (place.namespace.parts().to_vec(), place.key.as_str().to_owned());
    match deed {
        Deed::Put(n) => {
            write(store, tenant, place, n, None).await;
            model.insert(name, n);
            return;
        }
        Deed::PutForAMoment => write(store, tenant, place, 0, Some(Duration::from_mins(1))).await,
        Deed::Delete => drop(memory_items::delete(store, tenant, place, None).await.unwrap()),
        Deed::Purge => drop(memory_items::purge(store, tenant, place, None).await.unwrap()),
        Deed::Redact => redact(store, tenant, place).await,
    }
    model.remove(&name);
}

/// What is found under a prefix with pages of a size.
async fn find(
    store: &Store,
    tenant: &TenantId,
    prefix: &Prefix,
    here: bool,
    limit: u32,
) -> Vec<((Vec<String>, String), u32)> {
    let search = ItemSearch { prefix: prefix.clone(), only_here: here, ..ItemSearch::default() };
    let mut request = PageRequest { limit, after: None };
    let mut all = Vec::new();
    loop {
        let page = memory_items::search(store, tenant, &search, &request).await.unwrap();
        assert!(page.items.len() <= limit as usize);
        all.extend(page.items.into_iter().map(|hit| {
            let ItemPlace { namespace, key } = hit.item.place;
            let name = (namespace.parts().to_vec(), key.as_str().to_owned());
            (name, hit.item.value.as_str().parse().unwrap())
        }));
        request.after = page.next;
        if request.after.is_none() {
            return all;
        }
    }
}

/// How many items there are under each namespace, cut to a depth.
async fn counts(
    store: &Store,
    tenant: &TenantId,
    prefix: &Prefix,
    depth: u32,
) -> Vec<(Vec<String>, u64)> {
    let request = PageRequest { limit: 200, after: None };
    let page = memory_items::namespaces(store, tenant, (prefix, depth), &request).await.unwrap();
    page.items.into_iter().map(|count| (count.namespace.parts().to_vec(), count.n_items)).collect()
}

#[tokio::test]
async fn a_prefix_finds_exactly_what_a_map_says() {
    let db = TestDb::new().await;
    let store = db.store();
    let history = proptest::collection::vec(
        (namespace(), proptest::sample::select(&KEYS[..]), deed()),
        20..80,
    );
    let mut runner = TestRunner::deterministic();
    for case in 0..6 {
        let tenant = TenantId::parse(&format!("tenant-{case}")).unwrap();
        let history = history.new_tree(&mut runner).unwrap().current();
        let mut model = Model::new();
        for (namespace, key, deed) in &history {
            act(&store, &tenant, &place(namespace, key), *deed, &mut model).await;
        }
        execute(&db, "UPDATE memory_item SET expires_at = now() WHERE expires_at IS NOT NULL")
            .await;
        compare(&store, &tenant, &model).await;
    }
    assert_invariants(&db).await;
    store.close().await;
}

async fn compare(store: &Store, tenant: &TenantId, model: &Model) {
    let named = model.keys().map(|(namespace, _)| namespace.clone());
    let shorter = named.clone().map(|namespace| namespace[..namespace.len() - 1].to_vec());
    let others = PARTS.iter().map(|part| vec![(*part).to_owned()]);
    let prefixes: std::collections::BTreeSet<Vec<String>> =
        named.chain(shorter).chain(others).chain([Vec::new()]).collect();
    for (n, parts) in prefixes.iter().enumerate() {
        let prefix = Prefix::try_from(parts.clone()).unwrap();
        let under: Vec<_> = model
            .iter()
            .filter(|((namespace, _), _)| namespace.starts_with(parts))
            .map(|(name, n)| (name.clone(), *n))
            .collect();
        let limit = [1, 3, 200][n % 3];
        assert_eq!(find(store, tenant, &prefix, false, limit).await, under, "{parts:?}");
        let mut cut: BTreeMap<Vec<String>, u64> = BTreeMap::new();
        for ((namespace, _), _) in &under {
            *cut.entry(namespace.iter().take(2).cloned().collect()).or_default() += 1;
        }
        assert_eq!(counts(store, tenant, &prefix, 2).await, cut.into_iter().collect::<Vec<_>>());
        if Namespace::try_from(parts.clone()).is_ok() {
            let here: Vec<_> =
                under.into_iter().filter(|((namespace, _), _)| namespace == parts).collect();
            assert_eq!(find(store, tenant, &prefix, true, limit).await, here, "{parts:?}");
        }
    }
}
