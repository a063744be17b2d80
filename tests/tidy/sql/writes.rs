//! What writes: `INSERT`, `UPDATE`, `DELETE`.

use sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, FromTable, Insert, OnConflict,
    OnConflictAction, OnInsert, TableObject, Update, UpdateTableFromKind,
};

use super::held::{Read, TENANT, name_of, queries_in, read_joined};
use super::levels::{Joined, Level, Relation};
use super::queries::{projected, query};

pub(super) fn insert(insert: &Insert, outer: &Level<'_>) -> Read {
    let mut read = insert.source.as_ref().map(|it| query(it, outer)).unwrap_or_default();
    let TableObject::TableName(table) = &insert.table else { return read };
    let table = name_of(table);
    let alias = insert.table_alias.as_ref().map(|alias| alias.alias.value.clone());
    let mut level = outer.below();
    let mut target = level.tenant_table(&table, alias.unwrap_or_else(|| table.clone()));
    if let Some(label) = target.label() {
        read.n_tables += 1;
        let place = insert.columns.iter().position(|column| name_of(column) == TENANT);
        let value = place.and_then(|place| read.columns.get(place));
        if value.is_none_or(|(_, is_held)| !is_held) && !target.is_held() {
            read.loose.insert(label.to_owned());
        }
        if insert.on.as_ref().is_some_and(may_hit_another_tenant) {
            read.loose.insert(format!("{label} on conflict"));
        }
    }
    target.hold();
    level.see(target);
    level.see(Relation::other("excluded".to_owned(), vec![(TENANT.to_owned(), true)]));
    let mut nested = queries_in(&insert.on);
    nested.extend(queries_in(&insert.returning));
    for nested in nested {
        read.absorb(query(&nested, &level));
    }
    read.columns = projected(insert.returning.as_deref().unwrap_or_default(), &level);
    read
}

/// Whether the row that is changed instead may be another tenant's: then the key that it is found by
/// does not begin with the tenant.
fn may_hit_another_tenant(on: &OnInsert) -> bool {
    let OnInsert::OnConflict(OnConflict { conflict_target, action }) = on else { return true };
    let names_tenant = match conflict_target {
        Some(ConflictTarget::Columns { columns, .. }) => {
            columns.iter().any(|column| column.to_string() == TENANT)
        }
        _ => false,
    };
    matches!(action, OnConflictAction::DoUpdate(_)) && !names_tenant
}

pub(super) fn update(update: &Update, outer: &Level<'_>) -> Read {
    let from = match &update.from {
        Some(UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables)) => {
            tables.as_slice()
        }
        None => &[],
    };
    let mut level = outer.below();
    let tables = std::iter::once(&update.table).chain(from);
    let joined = Joined::of(tables).with(update.selection.as_ref());
    let mut nested = joined.queries();
    nested.extend(queries_in(&update.assignments));
    nested.extend(queries_in(&update.returning));
    let mut read = read_joined(&mut level, &joined, nested);
    if update.assignments.iter().any(sets_tenant) {
        read.loose.insert(format!("{} set {TENANT}", update.table));
    }
    read.columns = projected(update.returning.as_deref().unwrap_or_default(), &level);
    read
}

/// Whether an assignment gives a row to another tenant.
fn sets_tenant(assignment: &Assignment) -> bool {
    match &assignment.target {
        AssignmentTarget::ColumnName(name) => name_of(name) == TENANT,
        AssignmentTarget::Tuple(names) => names.iter().any(|name| name_of(name) == TENANT),
    }
}

pub(super) fn delete(delete: &Delete, outer: &Level<'_>) -> Read {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let mut level = outer.below();
    let joined = Joined::of(from.iter().chain(delete.using.iter().flatten()))
        .with(delete.selection.as_ref());
    let mut nested = joined.queries();
    nested.extend(queries_in(&delete.returning));
    let mut read = read_joined(&mut level, &joined, nested);
    read.columns = projected(delete.returning.as_deref().unwrap_or_default(), &level);
    read
}
