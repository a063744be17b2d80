//! Every statement that touches a tenant's rows names the tenant.

use crate::scan::{self, File};
use crate::tokens::Kind;
use crate::{Finding, bites, hold};

/// Tables whose keys begin with `tenant_id`.
const TENANT_TABLES: &[&str] = &[
    "agent",
    "agent_version",
    "api_key",
    "budget",
    "budget_draw",
    "budget_wait",
    "call_answer",
    "idempotency",
    "mcp_server",
    "memory_item",
    "memory_item_version",
    "model_request",
    "run",
    "run_delta",
    "run_event",
    "run_lease",
    "run_message",
    "run_pin",
    "run_skill",
    "run_watch",
    "schedule",
    "secret",
    "skill",
    "skill_version",
    "step",
    "thread",
    "thread_segment",
    "tombstone",
    "tool_call",
    "webhook",
    "webhook_delivery",
];

/// Statements that may do without, by file and a piece of their text. The list may only shrink.
const EXCEPTIONS: &[(&str, &str)] = &[
    // Whether the server asks for a key at all does not depend on a tenant.
    ("src/store/keys.rs", "SELECT EXISTS (SELECT 1 FROM api_key"),
];

const VERBS: [&str; 5] = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"];

/// The statements of a file and the lines they begin on.
fn statements(file: &File) -> Vec<(usize, &str)> {
    if !file.path.starts_with("src/") {
        return Vec::new();
    }
    if scan::extension(&file.path) == "sql" {
        return vec![(1, file.text.as_str())];
    }
    file.tokens
        .iter()
        .filter(|token| token.kind == Kind::Literal && !token.in_doc && !token.in_test)
        .filter(|token| words(&token.text).next().is_some_and(|word| VERBS.contains(&word)))
        .map(|token| (token.line, token.text.as_str()))
        .collect()
}

fn words(sql: &str) -> impl Iterator<Item = &str> {
    let code = sql.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code));
    code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .filter(|word| !word.is_empty())
}

/// The tenant tables that a statement reads or writes: those named after `FROM`, `JOIN`, `INTO`,
/// `UPDATE` or `USING`.
fn tenant_tables(sql: &str) -> Vec<&str> {
    let words: Vec<&str> = words(sql).collect();
    let named = words.windows(2).filter_map(|pair| match pair {
        [verb, table] if ["FROM", "JOIN", "INTO", "UPDATE", "USING"].contains(verb) => Some(*table),
        _ => None,
    });
    named.filter(|table| TENANT_TABLES.contains(table)).collect()
}

fn is_excepted(exceptions: &[(&str, &str)], path: &str, sql: &str) -> bool {
    exceptions.iter().any(|(file, piece)| *file == path && sql.contains(piece))
}

fn check(file: &File, exceptions: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, sql) in statements(file) {
        let tables = tenant_tables(sql);
        let names_tenant = words(sql).any(|word| word == "tenant_id");
        if !tables.is_empty() && !names_tenant && !is_excepted(exceptions, &file.path, sql) {
            let what = format!("a statement on `{}` without `tenant_id`", tables.join("`, `"));
            findings.push(Finding::new(&file.path, line, what, "bind the tenant of the caller"));
        }
    }
    findings
}

/// Exceptions that are no longer needed.
fn stale(exceptions: &[(&str, &str)], files: &[File]) -> Vec<Finding> {
    let needed = |exception: &(&str, &str)| {
        files
            .iter()
            .filter(|file| file.path == exception.0)
            .any(|file| check(file, &[]).len() > check(file, &[*exception]).len())
    };
    exceptions
        .iter()
        .filter(|exception| !needed(exception))
        .map(|(path, piece)| {
            let what = format!("the exception `{piece}` is not needed");
            Finding::new(path, 1, what, "take it off the list in tests/tidy/sql.rs")
        })
        .collect()
}

#[test]
fn statements_name_the_tenant() {
    hold(scan::house().iter().flat_map(|file| check(file, EXCEPTIONS)));
    hold(stale(EXCEPTIONS, scan::house()));
}

#[test]
fn the_tables_with_a_tenant_are_those_of_the_schema() {
    let schema: Vec<&File> =
        scan::house().iter().filter(|file| file.path.starts_with("migrations/")).collect();
    let mut tables: Vec<&str> = schema
        .iter()
        .flat_map(|file| file.text.split("CREATE ").skip(1))
        .filter_map(|rest| rest.strip_prefix("UNLOGGED ").unwrap_or(rest).strip_prefix("TABLE "))
        .filter(|table| table.split(");").next().is_some_and(|body| body.contains("tenant_id")))
        .filter_map(|table| table.split_whitespace().next())
        .collect();
    tables.sort_unstable();
    assert_eq!(tables, TENANT_TABLES);
}

#[test]
fn a_statement_without_its_tenant_is_found() {
    let text = "fn f() {\n sqlx::query!(\"SELECT 1 FROM run -- tenant_id\\n WHERE run_id = $1\", id);\n\
        sqlx::query_as!(Row, r#\"UPDATE step SET x = $1\"#);\n\
        q(\"WITH a AS (SELECT tenant_id FROM run) SELECT * FROM a\");\n q(\"SELECT now()\");\n q(\"FROM run\");\n}\n";
    let file = File::new("src/store/x.rs", text);
    bites(&check(&file, &[]), "without `tenant_id`", &[2, 3]);
    let exceptions = [("src/store/x.rs", "UPDATE step"), ("src/store/x.rs", "gone")];
    bites(&check(&file, &exceptions), "a statement on `run`", &[2]);
    bites(&stale(&exceptions, &[file]), "`gone` is not needed", &[1]);
    let sql = File::new("src/store/x.sql", "DELETE FROM thread WHERE thread_id = $1");
    bites(&check(&sql, &[]), "a statement on `thread`", &[1]);
}
