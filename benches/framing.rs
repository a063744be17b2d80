//! How fast text is looked through for framing tags and for what resembles them.
//!
//! The figures to hold (bytes looked at in a second): text without `<` at a third of `memchr` on the same
//! text, text with tags at 500 MB, traps at 200 MB.

use std::hint::black_box;

use agentling::render::framing::{contains_tag, lookalike, neutralize_tags};
use criterion::{Criterion, Throughput};

const SIZE: usize = 1 << 20;

/// A mebibyte of repetitions.
fn filled(piece: &str) -> String {
    piece.repeat(SIZE / piece.len())
}

/// A mebibyte each: what there is to read, by what is hard about it.
fn texts() -> Vec<(&'static str, String)> {
    let prose = "The tool gave back 42 rows, which were grouped by month and summed up. ";
    let letters = "Der Bär übersetzt das schöne Märchen für die Füchse. 它返回了四十二行。";
    let tags = "Some prose in front. <system>an order</system> <b>bold</b> and <tool_result id=\"7\">more</tool_result> text. ";
    let page = "<div class=\"row\"><a href=\"/a?b=1&c=2\">One</a> &amp; <em>another</em></div>\n";
    vec![
        ("prose", filled(prose)),
        ("letters", filled(letters)),
        ("tags", filled(tags)),
        ("page", filled(page)),
        ("brackets", filled("<")),
        ("closers", filled("< /")),
        ("spaces", format!("<{}", filled(" "))),
        ("wide_spaces", format!("<{}", filled("\u{3000}"))),
        ("names", filled("<assistant_thinkin")),
        ("ampersands", format!("<{}", filled("&"))),
        ("entities", filled("&lt;")),
        ("namespaces", format!("<{}", filled("x"))),
        ("invisible", format!("<{}", filled("\u{200b}"))),
        ("full_width", filled("\u{ff1c}")),
        ("expanding", format!("<{}", filled("\u{33c2}"))),
    ]
}

fn measure<T>(c: &mut Criterion, what: &str, mut look: impl FnMut(&str) -> T) {
    let mut group = c.benchmark_group(what);
    for (name, text) in texts() {
        let n_bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        group.throughput(Throughput::Bytes(n_bytes));
        group.bench_function(name, |bencher| bencher.iter(|| look(black_box(&text))));
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    // What a search for the bracket alone costs.
    measure(&mut criterion, "memchr", |text| memchr::memchr(b'<', text.as_bytes()));
    measure(&mut criterion, "contains_tag", contains_tag);
    measure(&mut criterion, "neutralize_tags", |text| neutralize_tags(text).len());
    measure(&mut criterion, "resembled", lookalike::resembled);
    criterion.final_summary();
}
