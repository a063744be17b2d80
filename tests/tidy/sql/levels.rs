//! The relations that a query sees, its own and those around it.

use std::collections::BTreeSet;

use sqlparser::ast::{
    Expr, Join, JoinConstraint, JoinOperator, ObjectName, Query, TableAlias, TableFactor,
    TableWithJoins,
};

use super::held::{
    Columns, Law, Read, TENANT, column_of, holds, is_of_parameters, name_of, queries_in,
};
use super::queries::query;

/// Something that rows come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Relation {
    name: String,
    columns: Columns,
    /// What a tenant table is called in a finding.
    label: Option<String>,
}

impl Relation {
    /// Holds what was held before of a tenant table.
    fn keep(&mut self, before: &Self) {
        if self.label.is_some() {
            self.columns.clone_from(&before.columns);
        }
    }

    fn column(&self, name: &str) -> Option<bool> {
        let found = self.columns.iter().find(|(column, _)| column == name);
        found.map(|(_, is_held)| *is_held)
    }

    /// What it is called in a finding, if it is a tenant table.
    pub(super) fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    pub(super) fn is_held(&self) -> bool {
        self.column(TENANT) == Some(true)
    }

    /// The same table, of which every row that is meant is the caller's.
    pub(super) fn hold(&mut self) {
        for (_, is_held) in &mut self.columns {
            *is_held = true;
        }
    }

    /// Something that is no tenant table.
    pub(super) const fn other(name: String, columns: Columns) -> Self {
        Self { name, columns, label: None }
    }

    fn is_loose(&self) -> bool {
        self.label.is_some() && self.column(TENANT) == Some(false)
    }
}

/// A query's relations and common table expressions, and what is around it.
#[derive(Debug)]
pub(super) struct Level<'a> {
    law: &'a Law<'a>,
    outer: Option<&'a Self>,
    place: String,
    ctes: Vec<(String, Columns)>,
    relations: Vec<Relation>,
}

impl<'a> Level<'a> {
    pub(super) const fn outermost(law: &'a Law<'a>) -> Self {
        Self { law, outer: None, place: String::new(), ctes: Vec::new(), relations: Vec::new() }
    }

    pub(super) fn below(&'a self) -> Self {
        Self { outer: Some(self), place: self.place.clone(), ..Self::outermost(self.law) }
    }

    /// The same for what stands in a common table expression.
    pub(super) fn within(&'a self, cte: &str) -> Self {
        Self { place: format!("{}{cte}/", self.place), ..self.below() }
    }

    pub(super) fn define(&mut self, cte: String, columns: Columns) {
        self.ctes.push((cte, columns));
    }

    /// Whether a column is of the caller's tenant.
    pub(super) fn column(&self, of: Option<&str>, name: &str) -> bool {
        let mut own = self.relations.iter();
        let here = match of {
            Some(of) => own.find(|relation| relation.name == of).map(|it| it.column(name)),
            None => own.find_map(|relation| relation.column(name)).map(Some),
        };
        match here {
            Some(column) => column == Some(true),
            None => self.outer.is_some_and(|outer| outer.column(of, name)),
        }
    }

    /// The relation of this very level whose tenant an expression is.
    pub(super) fn tenant_of(&self, expr: &Expr) -> Option<usize> {
        let (of, name) = column_of(expr).filter(|(_, name)| *name == TENANT)?;
        self.relations.iter().position(|relation| {
            of.is_none_or(|of| relation.name == of) && relation.column(name).is_some()
        })
    }

    /// All columns of a relation, or of all of them.
    pub(super) fn all_columns(&self, of: Option<&str>) -> Columns {
        let wanted = self.relations.iter().filter(|it| of.is_none_or(|of| it.name == of));
        wanted.flat_map(|relation| relation.columns.iter().cloned()).collect()
    }

    /// Sees a relation that stands in no `FROM`.
    pub(super) fn see(&mut self, relation: Relation) {
        self.relations.push(relation);
    }

    /// Takes in relations and what holds them; finds those that nothing does.
    pub(super) fn join(&mut self, joined: &Joined<'_>) -> Read {
        loop {
            let entered: Vec<(Relation, Read)> =
                joined.factors.iter().map(|factor| self.relation(factor)).collect();
            let (mut relations, reads): (Vec<Relation>, Vec<Read>) = entered.into_iter().unzip();
            for (relation, before) in relations.iter_mut().zip(&self.relations) {
                relation.keep(before);
            }
            let is_settled = relations == self.relations;
            self.relations = relations;
            let n_held = self.hold(&joined.conditions);
            if is_settled && n_held == 0 {
                return self.found(reads);
            }
        }
    }

    /// Marks what the conditions hold; how many relations are held that were not.
    fn hold(&mut self, conditions: &[Condition<'_>]) -> usize {
        let mut held = BTreeSet::new();
        for condition in conditions {
            let places = condition.holds(self);
            held.extend(places.into_iter().filter(|place| condition.may_hold(self, *place)));
        }
        let mut n_new = 0;
        for (place, relation) in self.relations.iter_mut().enumerate() {
            if held.contains(&place) && relation.is_loose() {
                relation.hold();
                n_new += 1;
            }
        }
        n_new
    }

    fn found(&self, reads: Vec<Read>) -> Read {
        let mut found = Read::default();
        for read in reads {
            found.absorb(read);
        }
        let loose = self.relations.iter().filter(|relation| relation.is_loose());
        found.loose.extend(loose.filter_map(|relation| relation.label.clone()));
        found.n_tables += self.relations.iter().filter(|it| it.label.is_some()).count();
        found
    }

    fn relation(&self, factor: &TableFactor) -> (Relation, Read) {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                (self.table(name, alias.as_ref()), Read::default())
            }
            TableFactor::Derived { lateral, subquery, alias, .. } => {
                let around = if *lateral { Some(self) } else { self.outer };
                let read = around.map(|level| query(subquery, level)).unwrap_or_default();
                let columns = renamed(read.columns.clone(), alias.as_ref());
                (Relation::other(alias_of(alias.as_ref()), columns), read)
            }
            TableFactor::Table { alias, .. }
            | TableFactor::Function { alias, .. }
            | TableFactor::UNNEST { alias, .. } => {
                (function(factor, alias.as_ref()), self.nested(factor))
            }
            // A tenant table in anything else is one that is counted and not seen.
            _ => (Relation::other(String::new(), Vec::new()), Read::default()),
        }
    }

    /// What stands in the arguments of a function.
    fn nested(&self, factor: &TableFactor) -> Read {
        let mut read = Read::default();
        for nested in queries_in(factor) {
            read.absorb(query(&nested, self));
        }
        read
    }

    fn table(&self, name: &ObjectName, alias: Option<&TableAlias>) -> Relation {
        let table = name_of(name);
        let called = alias.map_or_else(|| table.clone(), |alias| alias.name.value.clone());
        if let Some(columns) = self.cte(&table) {
            return Relation::other(called, renamed(columns.clone(), alias));
        }
        self.tenant_table(&table, called)
    }

    /// A table that is held only where it is taken as such.
    pub(super) fn tenant_table(&self, table: &str, called: String) -> Relation {
        if !self.law.tables.contains(table) {
            return Relation::other(called, Vec::new());
        }
        let suffix = if called == table { String::new() } else { format!(" {called}") };
        let label = format!("{}{table}{suffix}", self.place);
        let is_given = self.law.given.contains(&label.as_str());
        let columns = vec![(TENANT.to_owned(), is_given)];
        Relation { name: called, columns, label: Some(label) }
    }

    fn cte(&self, name: &str) -> Option<&Columns> {
        let own = self.ctes.iter().rev().find(|(cte, _)| cte == name);
        own.map(|(_, columns)| columns).or_else(|| self.outer?.cte(name))
    }
}

/// A function that answers rows: made of parameters only, they are what the caller says.
fn function(factor: &TableFactor, alias: Option<&TableAlias>) -> Relation {
    let is_held = match factor {
        TableFactor::Table { args: Some(args), .. } => is_of_parameters(&args.args),
        TableFactor::Function { args, .. } => is_of_parameters(args),
        TableFactor::UNNEST { array_exprs, .. } => is_of_parameters(array_exprs),
        _ => false,
    };
    let names = alias.into_iter().flat_map(|alias| &alias.columns);
    let columns = names.map(|column| (column.name.value.clone(), is_held)).collect();
    Relation::other(alias_of(alias), columns)
}

fn alias_of(alias: Option<&TableAlias>) -> String {
    alias.map(|alias| alias.name.value.clone()).unwrap_or_default()
}

/// Columns under the names that an alias gives them.
pub(super) fn renamed(columns: Columns, alias: Option<&TableAlias>) -> Columns {
    let mut names = alias.into_iter().flat_map(|alias| &alias.columns);
    let named = |(old, is_held): (String, bool)| {
        (names.next().map_or(old, |column| column.name.value.clone()), is_held)
    };
    columns.into_iter().map(named).collect()
}

/// Relations that are joined, and the conditions that hold for their rows.
#[derive(Debug, Default)]
pub(super) struct Joined<'a> {
    factors: Vec<&'a TableFactor>,
    conditions: Vec<Condition<'a>>,
}

/// A condition, and the only relation that it holds if it does not hold all.
#[derive(Debug)]
struct Condition<'a> {
    that: That<'a>,
    only: Option<usize>,
}

#[derive(Debug)]
enum That<'a> {
    Is(&'a Expr),
    /// `USING (tenant_id)`, of the relations up to and with this one.
    SameTenant(usize),
}

impl Condition<'_> {
    fn holds(&self, level: &Level<'_>) -> BTreeSet<usize> {
        match self.that {
            That::Is(expr) => holds(expr, level),
            That::SameTenant(last) => {
                let same = level.relations.iter().take(last + 1);
                if same.clone().any(Relation::is_held) {
                    same.enumerate().map(|(place, _)| place).collect()
                } else {
                    BTreeSet::new()
                }
            }
        }
    }

    fn may_hold(&self, level: &Level<'_>, place: usize) -> bool {
        place < level.relations.len() && self.only.is_none_or(|only| only == place)
    }
}

impl<'a> Joined<'a> {
    /// These tables, and what stands in their joins.
    pub(super) fn of(tables: impl IntoIterator<Item = &'a TableWithJoins>) -> Self {
        let mut joined = Self::default();
        for table in tables {
            joined.add(table);
        }
        joined
    }

    /// Further a condition for all of it.
    pub(super) fn with(mut self, condition: Option<&'a Expr>) -> Self {
        let conditions = condition.map(|expr| Condition { that: That::Is(expr), only: None });
        self.conditions.extend(conditions);
        self
    }

    /// The queries in the conditions of joins.
    pub(super) fn queries(&self) -> Vec<Query> {
        let nested = self.conditions.iter().filter_map(|condition| match condition.that {
            That::Is(expr) => Some(queries_in(expr)),
            That::SameTenant(_) => None,
        });
        nested.flatten().collect()
    }

    fn add(&mut self, table: &'a TableWithJoins) {
        self.factor(&table.relation);
        for join in &table.joins {
            self.factor(&join.relation);
            self.condition(join);
        }
    }

    fn factor(&mut self, factor: &'a TableFactor) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.add(table_with_joins),
            factor => self.factors.push(factor),
        }
    }

    fn condition(&mut self, join: &'a Join) {
        use JoinOperator::{CrossJoin, Inner, Join as Plain, Left, LeftOuter};
        let last = self.factors.len().saturating_sub(1);
        let (constraint, only) = match &join.join_operator {
            Plain(constraint) | Inner(constraint) | CrossJoin(constraint) => (constraint, None),
            // The rows on the left are there whether or not the condition holds.
            Left(constraint) | LeftOuter(constraint) => (constraint, Some(last)),
            // Of any other join it is not said what it holds.
            _ => return,
        };
        match constraint {
            JoinConstraint::On(expr) => {
                self.conditions.push(Condition { that: That::Is(expr), only });
            }
            JoinConstraint::Using(names) if names.iter().any(|name| name_of(name) == TENANT) => {
                self.conditions.push(Condition { that: That::SameTenant(last), only });
            }
            _ => {}
        }
    }
}
