//! How changes of blocks are told, and that a difference says exactly what changed.

use proptest::collection::vec;
use proptest::prelude::*;

use super::diff::unified_diff;
use super::*;
use crate::domain::ledger::Origin;
use crate::render::tests::support::context;

/// Puts a difference into effect: what the lines of its hunks keep, delete and insert.
fn applied(before: &str, diff: &str) -> String {
    let mut old = before.split('\n').enumerate().peekable();
    let mut new: Vec<&str> = Vec::new();
    for line in diff.split('\n').skip(2) {
        if let Some(header) = line.strip_prefix("@@ -") {
            let (of_old, of_new) = header.split_once(" +").unwrap();
            while let Some((_, kept)) = old.next_if(|(at, _)| at + 1 < first_line(of_old)) {
                new.push(kept);
            }
            assert_eq!(first_line(of_new), new.len() + 1, "{diff}");
            continue;
        }
        let (sign, text) = line.split_at(1);
        if sign != "+" {
            assert_eq!(old.next().unwrap().1, text, "{diff}");
        }
        if sign != "-" {
            new.push(text);
        }
    }
    new.extend(old.map(|(_, text)| text));
    new.join("\n")
}

fn first_line(span: &str) -> usize {
    span.split([',', ' ']).next().unwrap().parse().unwrap()
}

fn numbered(n_lines: usize, change: impl Fn(usize) -> Option<&'static str>) -> String {
    let line = |n| change(n).map_or_else(|| format!("line {n}"), str::to_owned);
    (0..n_lines).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn equal_texts_do_not_differ() {
    for text in ["", "a", "a\n", "a\nb"] {
        assert_eq!(unified_diff(text, text), "");
    }
}

#[test]
fn changes_that_are_near_share_a_hunk_and_others_do_not() {
    let before = numbered(20, |_| None);
    let near = numbered(20, |n| (n == 3 || n == 8).then_some("x"));
    let diff = unified_diff(&before, &near);
    let told = "--- before\n+++ after\n@@ -2,10 +2,10 @@\n line 1\n line 2\n-line 3\n+x\n line 4\n \
                line 5\n line 6\n line 7\n-line 8\n+x\n line 9\n line 10";
    assert_eq!(diff, told);
    let far = numbered(20, |n| (n == 3 || n == 9).then_some("x"));
    assert_eq!(unified_diff(&before, &far).matches("@@ -").count(), 2);
}

#[test]
fn headers_count_lines_as_the_format_has_it() {
    for (before, after, header) in [
        ("a", "b", "@@ -1 +1 @@"),
        ("a\nb\nc\nd", "a\nb\nc\nd\ne", "@@ -3,2 +3,3 @@"),
        ("x\na\nb\nc", "a\nb\nc", "@@ -1,3 +1,2 @@"),
        ("", "a", "@@ -1 +1 @@"),
    ] {
        assert_eq!(unified_diff(before, after).split('\n').nth(2), Some(header));
    }
}

#[test]
fn texts_too_long_to_compare_are_replaced_between_what_they_share() {
    let before = numbered(1_500, |n| (n % 2 == 0).then_some("even"));
    let after = before.replace("line", "row");
    let diff = unified_diff(&before, &after);
    assert_eq!(applied(&before, &diff), after);
    assert_eq!(diff.matches("\n-even").count(), 749);
    assert_eq!(diff.split('\n').nth(3), Some(" even"));
}

#[test]
fn a_difference_is_told_only_where_it_is_strictly_shorter() {
    let told = |previous: &str, text: &str| {
        let change = ContextChange { id: Some("b"), text: Some(text), previous: Some(previous) };
        change.told(true, Tags::BUILT_IN, Origin::WIRE)
    };
    let wraps = |tag, body: &str| Tags::BUILT_IN.wrap(tag, body, &[("id", Some("b"))]);
    // The difference has 50 characters, and the text of 24 lines too. In bytes the text is longer.
    for (n_lines, is_shorter) in [(24, false), (25, true)] {
        let text = |end: &str| format!("x{}{end}", "\u{e9}\n".repeat(n_lines));
        let (before, after) = (text("a"), text("b"));
        let diff = unified_diff(&before, &after);
        assert_eq!(diff.chars().count(), 50);
        let expected = if is_shorter {
            wraps(FramingTag::ContextDiff, &format!("\n{diff}\n"))
        } else {
            wraps(FramingTag::Context, &format!("\n{after}\n"))
        };
        assert_eq!(told(&before, &after), expected);
    }
}

#[test]
fn blocks_stand_in_the_order_in_which_they_came_to_be() {
    let steps = [
        context("b", Some("1")),
        context("a", Some("2")),
        context("b", Some("3")),
        context("c", None),
        context("a", None),
        context("d", Some("4")),
    ];
    let mut blocks = Blocks::new();
    let known: Vec<Option<Option<String>>> = steps
        .iter()
        .map(|step| blocks.change(step, Origin::WIRE).map(|it| it.previous.map(str::to_owned)))
        .collect();
    let some = |text: &str| Some(Some(text.to_owned()));
    assert_eq!(known, [Some(None), Some(None), some("1"), None, some("2"), Some(None)]);
    let whole = |id, text: &str| {
        Tags::BUILT_IN.wrap(FramingTag::Context, &format!("\n{text}\n"), &[("id", Some(id))])
    };
    assert_eq!(blocks.standing(Tags::BUILT_IN), [whole("b", "3"), whole("d", "4")]);
}

fn lines() -> impl Strategy<Value = String> {
    let line =
        prop_oneof![Just(""), Just("a"), Just("b"), Just("-"), Just("@@ -1 +1 @@"), Just("\r")];
    vec(line, 0..24).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn a_difference_leads_from_the_one_text_to_the_other(before in lines(), after in lines()) {
        let diff = unified_diff(&before, &after);
        prop_assert_eq!(diff.is_empty(), before == after);
        prop_assert_eq!(applied(&before, &diff), after);
    }
}
