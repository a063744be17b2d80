//! Every statement holds every tenant table that it touches to one tenant.

mod held;
mod levels;
mod queries;
mod writes;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use sqlparser::ast::Statement;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use crate::scan::{self, File};
use crate::tokens::Kind;
use crate::{Finding, bites, hold};
use held::{Law, TENANT, loose, name_of};

/// Tables that a statement reads across tenants: a piece of its text, the table as findings call it, and
/// why. What it joins to them must still be of the same tenant. The list may only shrink.
const ACROSS: &[(&str, &str, &str)] = &[
    ("FROM api_key WHERE key_id = $1", "api_key", "whose key it is, is what the look-up tells"),
    ("SELECT EXISTS (SELECT 1 FROM api_key)", "api_key", "a server asks for keys or does not"),
    ("-- Claims waiting runs", "waiting/run r", CLAIMS),
    ("UPDATE run_lease SET expires_at", "beat/run_lease", "one beat for all that is held"),
    ("DELETE FROM run_lease l USING expired", "expired/run_lease l", SWEEPS),
    ("WITH overdue AS", "overdue/run", SWEEPS),
    ("SELECT count(*) AS \"n!\", coalesce(extract(", "run", "operators see how much waits"),
    ("FROM budget_wait w LEFT JOIN", "wait/budget_wait w", SWEEPS),
    ("SELECT DISTINCT r.tenant_id, r.thread_id", "run r", SWEEPS),
    ("AND deadline_at <= now() LIMIT", "run", SWEEPS),
    ("AND a.waits_for = 'sub_runs') LIMIT", "run r", SWEEPS),
    ("JOIN tombstone t ON t.tenant_id", "run r", SWEEPS),
    ("DELETE FROM run_watch WHERE expires_at", "over/run_watch", SWEEPS),
    ("DELETE FROM run_watch WHERE expires_at", "run_delta d", SWEEPS),
    ("DELETE FROM idempotency WHERE (tenant_id", "idempotency", SWEEPS),
    ("DELETE FROM webhook_delivery WHERE (tenant_id", "webhook_delivery", SWEEPS),
    ("-- Claims deliveries that are due", "due/webhook w", CLAIMS),
    ("FROM schedule s CROSS JOIN LATERAL", "schedule s", CLAIMS),
    ("WHERE (t.tenant_id, t.thread_id) >", "thread t", "retention goes through all threads"),
    ("DELETE FROM memory_item WHERE (tenant_id", "memory_item", SWEEPS),
    ("DELETE FROM memory_item_version WHERE (tenant_id", "memory_item_version v", SWEEPS),
    ("DELETE FROM model_usage WHERE (tenant_id", "model_usage", SWEEPS),
    ("AND kek_id <> $3", "secret", "keys of keys are the operator's, and so is their replacement"),
];

const CLAIMS: &str = "the server takes up the work of all tenants";
const SWEEPS: &str = "the server tidies up after all tenants";

/// Statements that the compiler does not check, by file and how they begin. The list may only shrink.
const UNCHECKED: &[(&str, &str, &str)] = &[
    ("src/store/embedded/database.rs", "CREATE DATABASE", "there is none yet to check it against"),
    ("src/store/embedded/database.rs", "SELECT EXISTS", "there is none yet to check it against"),
    (
        "src/store/memory_items/search.rs",
        "SELECT f.namespace",
        "vectors are there with an extension",
    ),
    ("src/store/pool.rs", "SELECT max(version)", "the table is the migrator's"),
    ("src/store/pool.rs", "SELECT NOT pg_is_in_recovery", "it goes as one plain message"),
];

const VERBS: [&str; 9] =
    ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "MERGE", "TRUNCATE", "CREATE", "COPY"];

/// A statement as it is sent, and where it begins.
#[derive(Debug)]
struct Sent {
    path: String,
    line: usize,
    sql: String,
}

/// What begins like a statement in a file, and the lines.
fn statements(file: &File) -> Vec<(usize, &str)> {
    if !file.path.starts_with("src/") {
        return Vec::new();
    }
    if scan::extension(&file.path) == "sql" {
        return vec![(1, file.text.as_str())];
    }
    let literals = file.tokens.iter().filter(|token| token.kind == Kind::Literal);
    literals
        .filter(|token| !token.in_doc && !token.in_test && is_statement(&token.text))
        .map(|token| (token.line, token.text.as_str()))
        .collect()
}

fn is_statement(text: &str) -> bool {
    let code = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("--"));
    let first = code.and_then(|line| line.split_once(|c: char| !c.is_ascii_uppercase()));
    first.is_some_and(|(word, rest)| VERBS.contains(&word) && !rest.is_empty())
}

/// The tables with a tenant, as the migrations make them.
fn tenant_tables(migrations: &[&File]) -> BTreeSet<String> {
    let pieces = migrations.iter().flat_map(|file| file.text.split_inclusive(";\n"));
    let creating = pieces.filter(|sql| sql.contains("CREATE") && sql.contains(" TABLE "));
    let statements =
        creating.flat_map(|sql| Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap());
    let tables = statements.filter_map(|statement| match statement {
        Statement::CreateTable(table) => Some(table),
        _ => None,
    });
    tables
        .filter(|table| table.columns.iter().any(|column| column.name.value == TENANT))
        .map(|table| name_of(&table.name))
        .collect()
}

fn schema() -> BTreeSet<String> {
    let files = scan::house().iter().filter(|file| {
        let name = file.path.strip_prefix("migrations/");
        name.is_some_and(|name| !name.contains('/'))
    });
    tenant_tables(&files.collect::<Vec<_>>())
}

type Across<'a> = [(&'a str, &'a str, &'a str)];

/// The tables that a statement may read across tenants.
fn given<'a>(across: &Across<'a>, sql: &str) -> Vec<&'a str> {
    let sql = in_one_line(sql);
    across.iter().filter(|(piece, ..)| sql.contains(piece)).map(|(_, table, _)| *table).collect()
}

fn in_one_line(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn check(sent: &[Sent], tables: &BTreeSet<String>, across: &Across<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Sent { path, line, sql } in sent {
        let law = Law { tables, given: &given(across, sql) };
        let found = match loose(sql, &law) {
            Ok(loose) => {
                loose.into_iter().map(|table| format!("`{table}` is of any tenant")).collect()
            }
            Err(error) => vec![format!("a statement that cannot be judged: {error}")],
        };
        let advice = "bind its `tenant_id` to that of the caller";
        findings.extend(found.into_iter().map(|what| Finding::new(path, *line, what, advice)));
    }
    findings
}

/// Exceptions that are no longer needed.
fn stale(across: &Across<'_>, sent: &[Sent], tables: &BTreeSet<String>) -> Vec<Finding> {
    let is_needed = |exception: &(&str, &str, &str)| {
        let others: Vec<_> = across.iter().filter(|other| *other != exception).copied().collect();
        let mut meant = sent.iter().filter(|sent| !given(&[*exception], &sent.sql).is_empty());
        meant.any(|Sent { sql, .. }| {
            let law = Law { tables, given: &given(&others, sql) };
            loose(sql, &law).is_ok_and(|loose| loose.contains(exception.1))
        })
    };
    let unneeded = across.iter().filter(|exception| !is_needed(exception));
    let finding = |(piece, table, _): &(&str, &str, &str)| {
        let what = format!("the exception of `{table}` in `{piece}` is not needed");
        Finding::new("tests/tidy/sql/mod.rs", 1, what, "take it off the list")
    };
    unneeded.map(finding).collect()
}

/// The statements that are sent and that the compiler has not checked against the schema.
fn known_unchecked() -> impl Iterator<Item = Sent> {
    let is_known = |(path, _, sql): &Text<'_>| {
        UNCHECKED.iter().any(|(file, start, _)| file == path && sql.starts_with(start))
    };
    let texts = texts(scan::house()).into_iter().filter(is_known);
    texts.map(|(path, line, sql)| Sent { path: path.to_owned(), line, sql: sql.to_owned() })
}

/// The statements that the compiler has checked against the schema, which are all others that are sent.
fn compiled() -> Vec<Sent> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(".sqlx");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let queries = files.map(|path| {
        let json: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        json.pointer("/query").unwrap().as_str().unwrap().to_owned()
    });
    let texts = texts(scan::house());
    queries.map(|sql| placed(sql, &texts)).collect()
}

/// A file's path, a line of it, and what begins there like a statement.
type Text<'a> = (&'a str, usize, &'a str);

fn texts(files: &[File]) -> Vec<Text<'_>> {
    let in_file = |file| statements(file).into_iter().map(|(line, text)| (line, text.trim()));
    let texts = files
        .iter()
        .flat_map(|file| in_file(file).map(|(line, text)| (file.path.as_str(), line, text)));
    texts.collect()
}

/// A statement with the place of the text that it is or begins with.
fn placed(sql: String, texts: &[Text<'_>]) -> Sent {
    let fitting = texts.iter().filter(|(.., text)| sql.trim().starts_with(text));
    let longest = fitting.max_by_key(|(.., text)| text.len());
    let (path, line, _) = longest.unwrap_or(&(".sqlx", 1, ""));
    Sent { path: (*path).to_owned(), line: *line, sql }
}

/// Statements that are sent in another way than those that the compiler checks.
fn unchecked(file: &File, compiled: &[Sent], known: &Across<'_>) -> Vec<Finding> {
    let is_known = |sql: &str| {
        compiled.iter().any(|sent| sent.sql.trim().starts_with(sql.trim()))
            || known.iter().any(|(path, start, _)| *path == file.path && sql.starts_with(start))
    };
    let of_text = statements(file).into_iter().filter(|(_, sql)| !is_known(sql));
    let text = of_text.map(|(line, _)| (line, "a statement that the compiler does not check"));
    let builders = ["QueryBuilder", "AssertSqlSafe", "query_unchecked", "query_as_unchecked"];
    let tokens = file.tokens.iter().filter(|_| file.path.starts_with("src/"));
    let words = tokens.filter(|token| token.is_word() && !token.in_test);
    let built = words.filter(|token| builders.contains(&token.text.as_str()));
    let found = text.chain(built.map(|token| (token.line, "a statement that is put together")));
    let advice = "write it as one literal of a macro of `sqlx`";
    found.map(|(line, what)| Finding::new(&file.path, line, what, advice)).collect()
}

#[test]
fn every_statement_holds_its_tables_to_one_tenant() {
    let (tables, mut sent) = (schema(), compiled());
    assert!(sent.len() > 150);
    sent.extend(known_unchecked());
    hold(check(&sent, &tables, ACROSS));
    hold(stale(ACROSS, &sent, &tables));
}

#[test]
fn every_statement_is_one_that_the_compiler_checks() {
    let compiled = compiled();
    hold(scan::house().iter().flat_map(|file| unchecked(file, &compiled, UNCHECKED)));
    let is_used = |(path, start, _): &(&str, &str, &str)| {
        let file = scan::house().iter().find(|file| file.path == *path);
        let mut statements = file.into_iter().flat_map(statements);
        statements.any(|(_, sql)| sql.starts_with(start))
    };
    assert!(UNCHECKED.iter().all(is_used), "take what is not needed off the list");
}

#[test]
fn the_tables_with_a_tenant_are_those_of_the_schema() {
    let sql = "CREATE TABLE a (tenant_id text NOT NULL, x int);\n\
        CREATE TABLE b (x text);\nCREATE UNLOGGED TABLE c (\n tenant_id text\n) WITH (fillfactor = 70);\n\
        ALTER TABLE b ADD COLUMN y int;\n";
    let file = File::new("migrations/1.sql", sql);
    assert_eq!(tenant_tables(&[&file]), ["a", "c"].map(str::to_owned).into());
    let tables = schema();
    assert!(tables.len() > 25 && tables.contains("run_delta") && !tables.contains("chore"));
}

/// Judges one statement by a schema of three tables.
fn judged(sql: &str) -> String {
    let tables = ["run", "step", "thread"].map(str::to_owned).into();
    match loose(sql, &Law { tables: &tables, given: &[] }) {
        Ok(loose) => loose.into_iter().collect::<Vec<_>>().join(", "),
        Err(error) => error,
    }
}

#[test]
fn a_table_that_is_held_by_a_parameter_or_by_another_that_is_passes() {
    for sql in [
        "SELECT now()",
        "SELECT x FROM run WHERE tenant_id = $1",
        "SELECT x FROM run r WHERE $1 = r.tenant_id AND (r.x OR r.y)",
        "SELECT x FROM run r JOIN step s ON s.tenant_id = r.tenant_id AND s.x = r.x WHERE r.tenant_id = $1",
        "SELECT x FROM run r JOIN step s USING (tenant_id, x) WHERE r.tenant_id = $1",
        "SELECT x FROM run r LEFT JOIN step s ON s.tenant_id = r.tenant_id WHERE r.tenant_id = $1",
        "SELECT x FROM run r, step s WHERE (r.tenant_id, r.x) = ($1, $2) AND (s.tenant_id, s.x) = (r.tenant_id, r.x)",
        "SELECT x FROM run r WHERE (r.tenant_id = $1 AND r.x) OR (r.tenant_id = $1 AND r.y)",
        "SELECT x FROM run r WHERE r.tenant_id = $1 AND EXISTS (SELECT FROM step s WHERE s.tenant_id = r.tenant_id)",
        "SELECT (SELECT max(s.x) FROM step s WHERE s.tenant_id = $1) FROM run r WHERE r.tenant_id = $1",
        "SELECT x FROM run WHERE tenant_id = $1 ORDER BY (SELECT x FROM step WHERE tenant_id = $1) LIMIT 1",
        "WITH a AS (SELECT tenant_id FROM run WHERE tenant_id = $1) SELECT x FROM step s JOIN a ON a.tenant_id = s.tenant_id",
        "WITH RECURSIVE a (t, x) AS (SELECT tenant_id, x FROM run WHERE tenant_id = $1 UNION ALL SELECT r.tenant_id, r.x FROM a JOIN run r ON r.tenant_id = a.t) SELECT t FROM a",
        "SELECT x FROM (SELECT tenant_id FROM run WHERE tenant_id = $1) r JOIN step s ON s.tenant_id = r.tenant_id",
        "SELECT x FROM run r CROSS JOIN LATERAL (SELECT x FROM step s WHERE s.tenant_id = r.tenant_id) l WHERE r.tenant_id = $1",
        "SELECT x FROM run WHERE (tenant_id, x) IN (SELECT tenant_id, x FROM step WHERE tenant_id = $1)",
        "SELECT w.x FROM unnest($1::text[], $2::uuid[]) w (tenant_id, x) JOIN run r ON r.tenant_id = w.tenant_id",
        "INSERT INTO run (tenant_id, x) VALUES ($1, $2)",
        "INSERT INTO run (tenant_id, x) VALUES ($1, $2) ON CONFLICT (tenant_id, x) DO UPDATE SET x = excluded.x",
        "INSERT INTO run (x, tenant_id) SELECT s.x, s.tenant_id FROM step s WHERE s.tenant_id = $1",
        "WITH new AS (INSERT INTO run (tenant_id, x) VALUES ($1, $2) RETURNING tenant_id) INSERT INTO step (tenant_id) SELECT tenant_id FROM new",
        "UPDATE run SET x = 1 WHERE tenant_id = $1",
        "UPDATE run r SET x = s.x FROM step s WHERE r.tenant_id = $1 AND s.tenant_id = r.tenant_id",
        "DELETE FROM run r USING step s WHERE r.tenant_id = s.tenant_id AND s.tenant_id = $1",
    ] {
        assert_eq!(judged(sql), "", "{sql}");
    }
}

/// Statements that read or write a tenant table without its tenant, and what is found in them.
const LOOSE: &[(&str, &str)] = &[
    ("SELECT tenant_id FROM run WHERE x = $1", "run"),
    ("SELECT x FROM run -- tenant_id = $1", "run"),
    ("SELECT x FROM run r WHERE r.tenant_id = 'a'", "run r"),
    ("SELECT x FROM run r WHERE r.tenant_id <> $1", "run r"),
    ("SELECT x FROM run r WHERE r.tenant_id = r.tenant_id", "run r"),
    ("SELECT x FROM run r WHERE NOT (r.tenant_id = $1)", "run r"),
    ("SELECT x FROM run r WHERE r.tenant_id = $1 OR r.x = $2", "run r"),
    ("SELECT x FROM run r WHERE r.tenant_id = ANY ((SELECT array_agg(x) FROM y))", "run r"),
    ("SELECT x FROM run r JOIN step s ON s.x = r.x WHERE r.tenant_id = $1", "step s"),
    ("SELECT x FROM run r JOIN step s USING (x) WHERE r.tenant_id = $1", "step s"),
    ("SELECT x FROM run r LEFT JOIN step s ON s.tenant_id = $1 AND r.tenant_id = $1", "run r"),
    ("SELECT x FROM run r, step s WHERE r.tenant_id = s.tenant_id", "run r, step s"),
    (
        "SELECT x FROM run r, step s, thread t WHERE r.tenant_id = $1 AND t.tenant_id = s.tenant_id",
        "step s, thread t",
    ),
    (
        "SELECT x FROM run r WHERE EXISTS (SELECT FROM step s WHERE s.tenant_id = $1 AND r.tenant_id = $1)",
        "run r",
    ),
    (
        "SELECT x FROM run r WHERE r.tenant_id = $1 AND EXISTS (SELECT FROM step s WHERE s.x = r.x)",
        "step s",
    ),
    ("SELECT x FROM run r WHERE r.tenant_id = $1 AND r.x IN (SELECT x FROM step)", "step"),
    ("SELECT (SELECT max(x) FROM step) FROM run r WHERE r.tenant_id = $1", "step"),
    ("SELECT x FROM run WHERE tenant_id = $1 ORDER BY (SELECT x FROM step)", "step"),
    ("SELECT x FROM run WHERE tenant_id = $1 LIMIT (SELECT count(*) FROM step)", "step"),
    (
        "SELECT count(*) FROM run WHERE tenant_id = $1 GROUP BY x HAVING x > (SELECT max(x) FROM step)",
        "step",
    ),
    (
        "SELECT x FROM run r JOIN step s ON s.tenant_id = $1 AND s.x IN (SELECT x FROM thread) WHERE r.tenant_id = $1",
        "thread",
    ),
    ("WITH a AS (SELECT x FROM run) SELECT x FROM a WHERE tenant_id = $1", "a/run"),
    ("WITH a AS (SELECT 1), b AS (DELETE FROM step WHERE x = $1 RETURNING x) SELECT 1", "b/step"),
    (
        "WITH RECURSIVE a (t) AS (SELECT tenant_id FROM run WHERE tenant_id = $1 UNION ALL SELECT r.tenant_id FROM run r JOIN a ON a.x = r.x) SELECT 1 FROM step s JOIN a ON a.t = s.tenant_id",
        "a/run r, step s",
    ),
    ("SELECT x FROM (SELECT tenant_id FROM run) r WHERE r.tenant_id = $1", "run"),
    (
        "SELECT x FROM run r CROSS JOIN LATERAL (SELECT x FROM step s WHERE s.x = r.x) l WHERE r.tenant_id = $1",
        "step s",
    ),
    ("SELECT x FROM run WHERE tenant_id = $1 UNION SELECT x FROM step", "step"),
    (
        "SELECT x FROM run WHERE (tenant_id, x) IN (SELECT x, tenant_id FROM step WHERE tenant_id = $1)",
        "run",
    ),
    (
        "SELECT x FROM run WHERE (tenant_id, x) NOT IN (SELECT tenant_id, x FROM step WHERE tenant_id = $1)",
        "run",
    ),
    ("SELECT w.x FROM unnest($1::text[]) w (tenant_id) JOIN run r ON r.x = w.x", "run r"),
    ("INSERT INTO run (x) VALUES ($1)", "run"),
    ("INSERT INTO run (tenant_id, x) VALUES ($1, $2), ('b', $3)", "run"),
    ("INSERT INTO run VALUES ($1, $2)", "run"),
    ("INSERT INTO run (tenant_id, x) SELECT x, tenant_id FROM step WHERE tenant_id = $1", "run"),
    ("INSERT INTO run (tenant_id, x) SELECT $1, x FROM step", "step"),
    (
        "INSERT INTO run (tenant_id, x) VALUES ($1, $2) ON CONFLICT (x) DO UPDATE SET x = 1",
        "run on conflict",
    ),
    ("INSERT INTO run (tenant_id, x) VALUES ($1, (SELECT x FROM step))", "step"),
    ("INSERT INTO run (tenant_id, x) VALUES ($1, $2) RETURNING (SELECT x FROM step)", "step"),
    ("UPDATE run SET x = 1 WHERE x = $1", "run"),
    ("UPDATE run SET tenant_id = $2 WHERE tenant_id = $1", "run set tenant_id"),
    ("UPDATE run SET x = (SELECT x FROM step) WHERE tenant_id = $1", "step"),
    ("UPDATE run r SET x = s.x FROM step s WHERE r.tenant_id = $1", "step s"),
    ("UPDATE run r SET x = s.x FROM step s WHERE s.tenant_id = $1", "run r"),
    ("DELETE FROM run", "run"),
    ("DELETE FROM run r USING step s WHERE r.tenant_id = $1 AND s.x = r.x", "step s"),
    (
        "DELETE FROM run WHERE (tenant_id, x) IN (SELECT tenant_id, x FROM run WHERE x < now())",
        "run",
    ),
    (
        "SELECT x FROM run r FULL JOIN step s ON s.tenant_id = r.tenant_id WHERE r.tenant_id = $1",
        "step s",
    ),
];

#[test]
fn a_table_of_any_tenant_is_found_wherever_it_stands() {
    for (sql, found) in LOOSE {
        assert_eq!(judged(sql), *found, "{sql}");
    }
    for sql in ["SELECT x FROM (run", "TRUNCATE run", "TABLE run"] {
        assert!(!judged(sql).is_empty(), "{sql}");
    }
}

#[test]
fn what_is_found_is_said_with_its_line_and_an_exception_counts_for_its_table_only() {
    let text = "fn f() {\n q(\"SELECT 1 FROM run WHERE x = $1\");\n\
        q(r#\"UPDATE run r SET x = 1 FROM step s WHERE \"# + \"r.tenant_id = s.tenant_id\");\n\
        q(\"SELECT now()\");\n q(\"FROM run\");\n}\n";
    let files = [File::new("src/store/x.rs", text)];
    let sent = [
        "SELECT 1 FROM run WHERE x = $1",
        "UPDATE run r SET x = 1 FROM step s WHERE r.tenant_id = s.tenant_id",
    ];
    let sent = sent.map(|sql| placed(sql.to_owned(), &texts(&files)));
    let tables = ["run", "step"].map(str::to_owned).into();
    bites(&check(&sent, &tables, &[]), "is of any tenant", &[2, 3, 3]);
    let across = [("UPDATE run r", "step s", ""), ("SELECT 1", "step", "")];
    bites(&check(&sent, &tables, &across), "`run` is of any tenant", &[2]);
    bites(&stale(&across, &sent, &tables), "`step` in `SELECT 1` is not needed", &[1]);
}

#[test]
fn a_statement_that_the_compiler_does_not_check_is_found() {
    let text =
        "fn f() {\n q(\"SELECT 1\");\n q(\"SELECT 2\");\n QueryBuilder::new(\"SELECT 1\");\n}\n";
    let file = File::new("src/store/x.rs", text);
    let sent = [Sent { path: String::new(), line: 1, sql: "SELECT 1 + 1".to_owned() }];
    bites(&unchecked(&file, &sent, &[]), "a statement that", &[3, 4]);
    let known = [("src/store/x.rs", "SELECT 2", "")];
    bites(&unchecked(&file, &sent, &known), "put together", &[4]);
    let sql = File::new("src/store/x.sql", "-- One.\nDELETE FROM run WHERE run_id = $1");
    bites(&unchecked(&sql, &sent, &[]), "does not check", &[1]);
}

#[test]
fn what_the_parser_does_not_know_hides_nothing() {
    for (sql, found) in [
        (
            "SELECT x FROM run r, step s WHERE r.tenant_id = $1 FOR NO KEY UPDATE OF r, s SKIP LOCKED",
            "step s",
        ),
        ("SELECT x FROM run WHERE tenant_id = $1 FOR KEY SHARE", ""),
        ("SELECT x FROM step s, ROWS FROM (f($1), g(h($2))) AS q(x) WHERE s.x = q.x", "step s"),
        ("SELECT x FROM ROWS FROM (f((SELECT x FROM run))) AS q(x)", "a query among functions"),
    ] {
        assert_eq!(judged(sql), found, "{sql}");
    }
}
