//! Whether a statement holds every tenant table that it touches to the tenant of its caller.
//!
//! A table is held when its `tenant_id` must equal a parameter, or the `tenant_id` of another relation
//! that is held; what is inserted is held when its `tenant_id` is such a value. A condition holds only
//! tables of the very query in which it stands: one inside of `EXISTS` says nothing of the rows outside.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use regex::Regex;
use sqlparser::ast::{Expr, ObjectName, Query, Statement, Value, Visit, Visitor};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use super::levels::{Joined, Level};
use super::writes;

/// The column that says whose a row is.
pub(super) const TENANT: &str = "tenant_id";

/// The names of columns, and whether each is of the caller's tenant.
pub(super) type Columns = Vec<(String, bool)>;

/// What statements are judged by.
#[derive(Debug)]
pub(super) struct Law<'a> {
    /// The tables whose rows are tenants'.
    pub(super) tables: &'a BTreeSet<String>,
    /// Relations that are taken as held.
    pub(super) given: &'a [&'a str],
}

/// What was found in a piece of a statement.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// The columns that it answers with.
    pub(super) columns: Columns,
    /// Tables that are not held, by the common table expressions that they stand in, and how they are
    /// called there.
    pub(super) loose: BTreeSet<String>,
    /// How many tenant tables it touches.
    pub(super) n_tables: usize,
}

impl Read {
    pub(super) fn absorb(&mut self, other: Self) {
        self.loose.extend(other.loose);
        self.n_tables += other.n_tables;
    }
}

/// The tables of a statement that are not held.
///
/// # Errors
/// When it cannot be read, or has a tenant table where none is looked for.
pub(super) fn loose(sql: &str, law: &Law<'_>) -> Result<BTreeSet<String>, String> {
    let statements = Parser::parse_sql(&PostgreSqlDialect {}, &plain(sql)?);
    let statements = statements.map_err(|error| error.to_string())?;
    let mut loose = BTreeSet::new();
    for statement in &statements {
        let read = statement_in(statement, &Level::outermost(law));
        let mut counted = Counted { law, n: 0 };
        let ControlFlow::Continue(()) = statement.visit(&mut counted);
        if counted.n != read.n_tables {
            return Err(format!("{} tenant tables, {} of them seen", counted.n, read.n_tables));
        }
        loose.extend(read.loose);
    }
    Ok(loose)
}

/// A statement without what the parser does not know and what says nothing of whose rows are meant: which
/// rows are locked, and that functions of parameters are read side by side.
fn plain(sql: &str) -> Result<String, String> {
    static LOCKING: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\bFOR (NO KEY UPDATE|UPDATE|KEY SHARE|SHARE)( OF \w+(, \w+)*)?( SKIP LOCKED| NOWAIT)?\b")
            .unwrap()
    });
    let mut plain = LOCKING.replace_all(sql, "").into_owned();
    while let Some((before, rest)) = plain.split_once("ROWS FROM (") {
        let mut depth = 1_i32;
        let end = rest.find(|c: char| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        let (functions, after) = end.and_then(|end| rest.split_at_checked(end)).unwrap_or_default();
        if functions.contains("SELECT") || after.is_empty() {
            return Err("a query among functions".to_owned());
        }
        plain = format!("{before}functions($1{after}");
    }
    Ok(plain)
}

/// Counts the places in which tenant tables stand, whatever they are for.
struct Counted<'a> {
    law: &'a Law<'a>,
    n: usize,
}

impl Visitor for Counted<'_> {
    type Break = std::convert::Infallible;

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<Self::Break> {
        self.n += usize::from(self.law.tables.contains(&name_of(name)));
        ControlFlow::Continue(())
    }
}

pub(super) fn statement_in(statement: &Statement, outer: &Level<'_>) -> Read {
    match statement {
        Statement::Query(query) => super::queries::query(query, outer),
        Statement::Insert(insert) => writes::insert(insert, outer),
        Statement::Update(update) => writes::update(update, outer),
        Statement::Delete(delete) => writes::delete(delete, outer),
        // A tenant table in any other statement is one that is counted and not seen.
        _ => Read::default(),
    }
}

/// The last part of a name.
pub(super) fn name_of(name: &ObjectName) -> String {
    let last = name.0.last().and_then(|part| part.as_ident());
    last.map(|ident| ident.value.clone()).unwrap_or_default()
}

/// The queries that stand in a piece of a statement, without those that stand in them.
pub(super) fn queries_in(piece: &impl Visit) -> Vec<Query> {
    let mut nested = Nested::default();
    let ControlFlow::Continue(()) = piece.visit(&mut nested);
    nested.queries
}

#[derive(Default)]
struct Nested {
    depth: usize,
    queries: Vec<Query>,
}

impl Visitor for Nested {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        if self.depth == 0 {
            self.queries.push(query.clone());
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

/// Whether an expression is made of parameters and constants only.
pub(super) fn is_of_parameters(piece: &impl Visit) -> bool {
    struct Named;
    impl Visitor for Named {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    queries_in(piece).is_empty() && piece.visit(&mut Named).is_continue()
}

/// The column that an expression is: what it is qualified with, and its name.
pub(super) fn column_of(expr: &Expr) -> Option<(Option<&str>, &str)> {
    match expr {
        Expr::Nested(expr) => column_of(expr),
        Expr::Identifier(name) => Some((None, &name.value)),
        Expr::CompoundIdentifier(names) => match names.as_slice() {
            [relation, name] => Some((Some(&relation.value), &name.value)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether the value of an expression is the caller's tenant, where it is one at all.
pub(super) fn is_held(expr: &Expr, level: &Level<'_>) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::Placeholder(_)),
        Expr::Nested(expr) | Expr::Cast { expr, .. } => is_held(expr, level),
        Expr::Subquery(query) => {
            let read = super::queries::query(query, level);
            read.columns.first().is_some_and(|(_, is_held)| *is_held)
        }
        expr => column_of(expr).is_some_and(|(of, name)| level.column(of, name)),
    }
}

/// The relations of a level that a condition holds, by their places.
pub(super) fn holds(condition: &Expr, level: &Level<'_>) -> BTreeSet<usize> {
    use sqlparser::ast::{BinaryOperator as Op, InTarget};
    match condition {
        Expr::Nested(inner) => holds(inner, level),
        Expr::BinaryOp { left, op: Op::And, right } => &holds(left, level) | &holds(right, level),
        Expr::BinaryOp { left, op: Op::Or, right } => &holds(left, level) & &holds(right, level),
        Expr::BinaryOp { left, op: Op::Eq, right } => {
            let pairs = parts(left).into_iter().zip(parts(right));
            let held = pairs.flat_map(|(one, other)| {
                let sides = [(one, is_held(other, level)), (other, is_held(one, level))];
                sides.into_iter().filter(|(_, is_held)| *is_held).map(|(side, _)| side)
            });
            held.filter_map(|side| level.tenant_of(side)).collect()
        }
        Expr::AnyOp { left, compare_op: Op::Eq, right, .. } if is_of_parameters(&**right) => {
            level.tenant_of(left).into_iter().collect()
        }
        Expr::In { expr, target: InTarget::Subquery(query), negated: false, .. } => {
            let columns = super::queries::query(query, level).columns;
            let pairs = parts(expr).into_iter().zip(columns);
            let held = pairs.filter(|(_, (_, is_held))| *is_held);
            held.filter_map(|(part, _)| level.tenant_of(part)).collect()
        }
        _ => BTreeSet::new(),
    }
}

/// The parts of a row, or the one expression that is none.
fn parts(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Tuple(parts) => parts.iter().collect(),
        expr => vec![expr],
    }
}

/// Reads the relations of a query, and then whatever is nested in the rest of it.
pub(super) fn read_joined(level: &mut Level<'_>, joined: &Joined<'_>, rest: Vec<Query>) -> Read {
    let mut read = level.join(joined);
    for query in rest {
        read.absorb(super::queries::query(&query, level));
    }
    read
}
