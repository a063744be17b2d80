//! What reads: `SELECT`, with everything that stands in it.

use sqlparser::ast::{
    Cte, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Values,
};

use super::held::{
    Columns, Read, column_of, is_held, name_of, queries_in, read_joined, statement_in,
};
use super::levels::{Joined, Level, renamed};

/// Reads a query in what is around it.
pub(super) fn query(query: &Query, outer: &Level<'_>) -> Read {
    let mut level = outer.below();
    let mut read = Read::default();
    for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
        let mut defined = common(cte, &level);
        let columns = std::mem::take(&mut defined.columns);
        read.absorb(defined);
        level.define(cte.alias.name.value.clone(), columns);
    }
    let mut rest = queries_in(&query.order_by);
    rest.extend(queries_in(&query.limit_clause));
    rest.extend(queries_in(&query.fetch));
    let body = body(&query.body, rest, &level);
    let columns = body.columns.clone();
    read.absorb(body);
    Read { columns, ..read }
}

/// Reads a common table expression. One that refers to itself is what it begins with, unless what it goes
/// on with is less.
fn common(cte: &Cte, outer: &Level<'_>) -> Read {
    let name = &cte.alias.name.value;
    let inside = outer.within(name);
    let mut columns = match &*cte.query.body {
        SetExpr::SetOperation { left, .. } => body(left, Vec::new(), &inside).columns,
        _ => Vec::new(),
    };
    loop {
        let mut level = outer.within(name);
        level.define(name.clone(), renamed(columns.clone(), Some(&cte.alias)));
        let mut read = query(&cte.query, &level);
        if read.columns == columns || !is_recursive(cte) {
            read.columns = renamed(read.columns, Some(&cte.alias));
            return read;
        }
        columns = read.columns;
    }
}

const fn is_recursive(cte: &Cte) -> bool {
    matches!(*cte.query.body, SetExpr::SetOperation { .. })
}

fn body(expr: &SetExpr, rest: Vec<Query>, level: &Level<'_>) -> Read {
    match expr {
        SetExpr::Select(select) => self::select(select, rest, level),
        SetExpr::Query(inner) => with_rest(query(inner, level), rest, level),
        SetExpr::SetOperation { left, right, .. } => {
            let (left, right) = (body(left, Vec::new(), level), body(right, Vec::new(), level));
            let both = left.columns.iter().zip(&right.columns);
            let columns = both.map(|((name, one), (_, other))| (name.clone(), *one && *other));
            let mut read = Read { columns: columns.collect(), ..Read::default() };
            read.absorb(left);
            read.absorb(right);
            with_rest(read, rest, level)
        }
        SetExpr::Values(values) => {
            let columns = value_columns(values, level);
            let read = Read { columns, ..Read::default() };
            with_rest(with_rest(read, queries_in(values), level), rest, level)
        }
        SetExpr::Insert(statement) | SetExpr::Update(statement) | SetExpr::Delete(statement) => {
            statement_in(statement, level)
        }
        // A tenant table in anything else is one that is counted and not seen.
        SetExpr::Merge(_) | SetExpr::Table(_) => Read::default(),
    }
}

fn with_rest(mut read: Read, rest: Vec<Query>, level: &Level<'_>) -> Read {
    for nested in rest {
        read.absorb(query(&nested, level));
    }
    read
}

/// A column of values is of the tenant when every row's value is.
fn value_columns(values: &Values, level: &Level<'_>) -> Columns {
    let mut columns: Columns = Vec::new();
    for (n_before, row) in values.rows.iter().enumerate() {
        let held: Vec<bool> = row.content.iter().map(|expr| is_held(expr, level)).collect();
        if n_before == 0 {
            columns = held.into_iter().map(|is_held| (String::new(), is_held)).collect();
        } else {
            for ((_, column), is_held) in columns.iter_mut().zip(held) {
                *column &= is_held;
            }
        }
    }
    columns
}

fn select(select: &Select, rest: Vec<Query>, outer: &Level<'_>) -> Read {
    let mut level = outer.below();
    let joined = Joined::of(&select.from).with(select.selection.as_ref());
    let mut nested = joined.queries();
    nested.extend(queries_in(&select.projection));
    nested.extend(queries_in(&select.distinct));
    nested.extend(queries_in(&select.group_by));
    nested.extend(queries_in(&select.having));
    nested.extend(queries_in(&select.named_window));
    nested.extend(rest);
    let mut read = read_joined(&mut level, &joined, nested);
    read.columns = projected(&select.projection, &level);
    read
}

/// The columns that a query answers with.
pub(super) fn projected(items: &[SelectItem], level: &Level<'_>) -> Columns {
    let columns = items.iter().flat_map(|item| match item {
        SelectItem::UnnamedExpr(expr) => {
            let name = column_of(expr).map(|(_, name)| name.to_owned());
            vec![(name.unwrap_or_default(), is_held(expr, level))]
        }
        SelectItem::ExprWithAlias { expr, alias } => {
            vec![(alias.value.clone(), is_held(expr, level))]
        }
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(of), _) => {
            level.all_columns(Some(&name_of(of)))
        }
        SelectItem::Wildcard(_) => level.all_columns(None),
        _ => Vec::new(),
    });
    columns.collect()
}
