//! The pages behind `type`, and the table of problems in the README.

use std::fmt::Write as _;

use super::ProblemKind;

/// All problems on one page.
pub fn index_page() -> String {
    let mut rows = String::new();
    for kind in ProblemKind::ALL {
        push(
            &mut rows,
            format_args!(
                "<tr><td>{}</td><td><a href=\"/problems/{slug}\"><code>{slug}</code></a></td><td>{}</td></tr>\n",
                kind.status_code(),
                kind.title(),
                slug = kind.slug(),
            ),
        );
    }
    page(
        "Problems",
        &format!(
            "<h1>Problems</h1>\n<p>Every error answers with <code>application/problem+json</code>; \
             its <code>type</code> is one of these.</p>\n<table>\n\
             <tr><th>Status</th><th>Type</th><th>Title</th></tr>\n{rows}</table>\n"
        ),
    )
}

/// The page of one problem.
pub fn kind_page(kind: ProblemKind) -> String {
    page(
        kind.title(),
        &format!(
            "<h1>{}</h1>\n<p>Status {}, type <code>{}</code></p>\n<p>{}</p>\n\
             <p><a href=\"/problems\">All problems</a></p>\n",
            kind.title(),
            kind.status_code(),
            kind.type_uri(),
            code_spans(kind.meaning()),
        ),
    )
}

/// The table of problems for the README.
pub fn problems_markdown() -> String {
    let mut table = String::from("| status | type | meaning |\n|---|---|---|\n");
    for kind in ProblemKind::ALL {
        push(
            &mut table,
            format_args!("| {} | `{}` | {} |\n", kind.status_code(), kind.slug(), kind.meaning()),
        );
    }
    table
}

fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title} – agentling</title></head>\n<body>\n{body}</body>\n</html>\n"
    )
}

/// Turns `` `text` `` into code elements; the texts are our own and hold no markup.
fn code_spans(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for (index, piece) in text.split('`').enumerate() {
        if index % 2 == 1 {
            push(&mut html, format_args!("<code>{piece}</code>"));
        } else {
            html.push_str(piece);
        }
    }
    html
}

fn push(text: &mut String, piece: std::fmt::Arguments<'_>) {
    // Writing into a `String` cannot fail.
    text.write_fmt(piece).unwrap_or_default();
}
