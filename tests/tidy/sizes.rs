//! Size budgets (architecture.md 3.11) that clippy does not know.

use syn::visit::{self, Visit};

use crate::scan::{self, File};
use crate::{Finding, bites, hold};

const FILE_LINES: usize = 400;
const MAIN_LINES: usize = 60;
const HANDLER_LINES: usize = 20;

/// A file under `src` that is too long, its test code not counted.
fn file_lines(file: &File) -> Option<Finding> {
    if !file.path.starts_with("src/") || scan::is_test_path(&file.path) {
        return None;
    }
    let lines = file.text.lines().count() - test_lines(file);
    let limit = if file.path == "src/main.rs" { MAIN_LINES } else { FILE_LINES };
    let what = format!("{lines} lines without tests, {limit} are allowed");
    (lines > limit)
        .then(|| Finding::new(&file.path, limit, what, "split it by what its parts are about"))
}

fn test_lines(file: &File) -> usize {
    let mut lines: Vec<usize> = Vec::new();
    for run in file
        .tokens
        .chunk_by(|a, b| a.in_test == b.in_test)
        .filter(|run| run.first().is_some_and(|token| token.in_test))
    {
        let first = run.first().map_or(0, |token| token.line);
        let last = run.last().map_or(0, |token| token.line);
        lines.extend(first..=last);
    }
    lines.dedup();
    lines.len()
}

/// A file that does not begin with its module doc.
fn module_doc(file: &File) -> Option<Finding> {
    let what = "line 1 is not the module's doc";
    let begins = file.text.lines().next().is_some_and(|line| line.starts_with("//! "));
    (!begins).then(|| Finding::new(&file.path, 1, what, "say in `//! …` what the file is about"))
}

/// Handlers whose body is too long.
fn handlers(file: &File) -> Vec<Finding> {
    if !file.path.starts_with("src/") || !file.text.contains("utoipa::path") {
        return Vec::new();
    }
    let mut visitor = Handlers { path: &file.path, findings: Vec::new() };
    visitor.visit_file(&syn::parse_file(&file.text).unwrap());
    visitor.findings
}

struct Handlers<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl<'ast> Visit<'ast> for Handlers<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let is_handler = item.attrs.iter().any(|attribute| {
            let path: Vec<String> =
                attribute.path().segments.iter().map(|s| s.ident.to_string()).collect();
            path == ["utoipa", "path"]
        });
        let brace = item.block.brace_token.span;
        let (open, close) = (brace.open().start().line, brace.close().start().line);
        let lines = (close - open).saturating_sub(1);
        if is_handler && lines > HANDLER_LINES {
            let what = format!("the body of `{}` has {lines} lines", item.sig.ident);
            let advice = "20 are allowed: extract, one call, a view (architecture.md 3.9)";
            self.findings.push(Finding::new(self.path, open, what, advice));
        }
        visit::visit_item_fn(self, item);
    }
}

#[test]
fn no_file_is_over_its_budget() {
    hold(scan::rust().filter_map(file_lines));
}

#[test]
fn a_long_file_is_found_and_its_tests_are_not_counted() {
    let code = "fn f() {}\n".repeat(FILE_LINES + 1);
    let tests =
        format!("#[cfg(test)]\nmod tests;\nfn g() {{}}\n#[cfg(test)]\nmod more {{\n{code}}}\n");
    let long = file_lines(&File::new("src/store/x.rs", &code));
    bites(&long.into_iter().collect::<Vec<_>>(), "401 lines", &[400]);
    assert_eq!(file_lines(&File::new("src/store/x.rs", &tests)), None);
    assert_eq!(test_lines(&File::new("src/store/x.rs", &tests)), 406);
    let long = file_lines(&File::new("src/main.rs", &"fn f() {}\n".repeat(61)));
    bites(&long.into_iter().collect::<Vec<_>>(), "61 lines", &[60]);
}

#[test]
fn every_file_says_first_what_it_is_about() {
    hold(scan::rust().filter_map(module_doc));
}

#[test]
fn a_file_without_its_doc_on_line_1_is_found() {
    for text in ["", "\n//! Late.", "use x;\n//! Late.", "// A comment.\n"] {
        let found = module_doc(&File::new("src/store/x.rs", text));
        bites(&found.into_iter().collect::<Vec<_>>(), "module's doc", &[1]);
    }
}

#[test]
fn handlers_are_short() {
    hold(scan::rust().flat_map(handlers));
}

#[test]
fn a_long_handler_is_found() {
    let body = "    let x = 1;\n".repeat(21);
    let text = format!(
        "#[utoipa::path(get)]\nasync fn long() {{\n{body}}}\nfn no_handler() {{\n{body}}}\n\
         #[utoipa::path(get)]\nasync fn short() {{\n    let x = 1;\n}}\n"
    );
    bites(&handlers(&File::new("src/http/x.rs", &text)), "the body of `long` has 21", &[2]);
}
