//! Tables of the README that are made from the code.

use agentling::config::settings_markdown;
use agentling::http::problem::problems_markdown;
use agentling::instruments::metrics_markdown;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

/// A text with a table between its markers; `None` when the markers are not there, once and in order.
fn with_table(text: &str, name: &str, table: &str) -> Option<String> {
    let (open, close) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
    let (before, rest) = text.split_once(&open)?;
    let (_, after) = rest.split_once(&close)?;
    let once = !after.contains(&open) && !before.contains(&close);
    once.then(|| format!("{before}{open}\n{}\n{close}{after}", table.trim_end()))
}

#[test]
fn the_tables_of_the_readme_are_those_that_the_code_makes() {
    let kept = std::fs::read_to_string(FILE).expect("README.md is there");
    let mut made = kept.clone();
    for (name, table) in [
        ("settings", settings_markdown()),
        ("metrics", metrics_markdown()),
        ("problems", problems_markdown()),
    ] {
        made = with_table(&made, name, &table).unwrap_or_else(|| {
            panic!("README.md needs <!-- {name} --> and, after it, <!-- /{name} -->")
        });
    }
    if kept != made {
        std::fs::write(FILE, made).unwrap();
        panic!("README.md was out of date and has been rewritten: look at its diff and commit it");
    }
}

#[test]
fn a_table_goes_between_its_markers_and_nothing_else_changes() {
    let text = "a\n<!-- x -->\nold\n<!-- /x -->\nb <!-- y -->\n";
    let wanted = "a\n<!-- x -->\n| n |\n<!-- /x -->\nb <!-- y -->\n";
    assert_eq!(with_table(text, "x", "| n |\n").as_deref(), Some(wanted));
    assert_eq!(with_table(wanted, "x", "| n |\n").as_deref(), Some(wanted));
    for broken in
        ["", "<!-- x -->", "<!-- /x --> <!-- x -->", "<!-- x --><!-- x --><!-- /x --><!-- x -->"]
    {
        assert_eq!(with_table(broken, "x", ""), None, "{broken}");
    }
}
