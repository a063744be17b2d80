//! Unified differences of two texts, line by line.
//!
//! They are part of what a model is sent, and what was sent once must be written in the same bytes for
//! as long as its thread lives. So the comparison is spelt out here, where no other release of
//! anything can change it.

use std::ops::Range;

/// Lines around a change that are shown with it.
const AROUND: usize = 2;

/// The most pairs of lines that are compared; where more than that differ, all of them are replaced.
const MOST_PAIRS: usize = 1 << 20;

/// A line of one of the texts, or of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit<'t> {
    Keep(&'t str),
    Delete(&'t str),
    Insert(&'t str),
}

/// What turns one text into another; empty when they are equal. A line ends at each line break, and
/// there is no line break at the end.
pub(super) fn unified_diff(before: &str, after: &str) -> String {
    let edits = edits(before, after);
    let hunks = hunks(&edits);
    if hunks.is_empty() {
        return String::new();
    }
    let mut lines = vec!["--- before".to_owned(), "+++ after".to_owned()];
    let (mut at, mut old, mut new) = (0, 0, 0);
    for hunk in hunks {
        let (skipped, shown) = (edits.get(at..hunk.start), edits.get(hunk.clone()));
        let (skipped, shown) = (skipped.unwrap_or_default(), shown.unwrap_or_default());
        (old, new) = (old + of_old(skipped), new + of_new(skipped));
        let (n_old, n_new) = (of_old(shown), of_new(shown));
        lines.push(format!("@@ -{} +{} @@", span(old, n_old), span(new, n_new)));
        lines.extend(shown.iter().map(|edit| line(*edit)));
        (old, new) = (old + n_old, new + n_new);
        at = hunk.end;
    }
    lines.join("\n")
}

fn of_old(edits: &[Edit<'_>]) -> usize {
    edits.iter().filter(|edit| !matches!(edit, Edit::Insert(_))).count()
}

fn of_new(edits: &[Edit<'_>]) -> usize {
    edits.iter().filter(|edit| !matches!(edit, Edit::Delete(_))).count()
}

fn line(edit: Edit<'_>) -> String {
    match edit {
        Edit::Keep(text) => format!(" {text}"),
        Edit::Delete(text) => format!("-{text}"),
        Edit::Insert(text) => format!("+{text}"),
    }
}

/// Where a hunk lies in a text, as its header says it: lines count from 1, and a single line goes
/// without its number of lines. There is always one, since a text has at least one.
fn span(before: usize, n_lines: usize) -> String {
    let first = before + 1;
    if n_lines == 1 { first.to_string() } else { format!("{first},{n_lines}") }
}

/// The changes with the lines around them; those that touch are one.
fn hunks(edits: &[Edit<'_>]) -> Vec<Range<usize>> {
    let mut hunks: Vec<Range<usize>> = Vec::new();
    for (at, edit) in edits.iter().enumerate() {
        if matches!(edit, Edit::Keep(_)) {
            continue;
        }
        let (start, end) = (at.saturating_sub(AROUND), (at + 1 + AROUND).min(edits.len()));
        match hunks.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => hunks.push(start..end),
        }
    }
    hunks
}

/// How the lines of one text become those of the other: what both begin and end with is kept, and
/// between that a longest common subsequence.
fn edits<'t>(before: &'t str, after: &'t str) -> Vec<Edit<'t>> {
    let (mut old, mut new): (Vec<&str>, Vec<&str>) =
        (before.split('\n').collect(), after.split('\n').collect());
    let n_head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let head: Vec<Edit<'t>> = old.drain(..n_head).map(Edit::Keep).collect();
    new.drain(..n_head);
    let n_tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let tail = old.split_off(old.len() - n_tail);
    new.truncate(new.len() - n_tail);
    let between = if old.len().saturating_mul(new.len()) > MOST_PAIRS {
        old.into_iter().map(Edit::Delete).chain(new.into_iter().map(Edit::Insert)).collect()
    } else {
        compared(&old, &new)
    };
    head.into_iter().chain(between).chain(tail.into_iter().map(Edit::Keep)).collect()
}

/// Compares every line with every other one. Of equally good ways the one that deletes first is taken.
fn compared<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<Edit<'t>> {
    let rows = common_lengths(old, new);
    let mut edits = Vec::with_capacity(old.len() + new.len());
    let (mut old, mut new) = (old, new);
    loop {
        match (old.split_first(), new.split_first()) {
            (Some((line, old_rest)), Some((other, new_rest))) if line == other => {
                edits.push(Edit::Keep(line));
                (old, new) = (old_rest, new_rest);
            }
            (Some((line, rest)), Some(_))
                if length(&rows, rest, new) >= length(&rows, old, new.get(1..).unwrap_or(&[])) =>
            {
                edits.push(Edit::Delete(line));
                old = rest;
            }
            (_, Some((line, rest))) => {
                edits.push(Edit::Insert(line));
                new = rest;
            }
            (Some((line, rest)), None) => {
                edits.push(Edit::Delete(line));
                old = rest;
            }
            (None, None) => return edits,
        }
    }
}

/// The length of a longest common subsequence of two remainders.
fn length(rows: &[Vec<u32>], old: &[&str], new: &[&str]) -> u32 {
    rows.get(old.len()).and_then(|row| row.get(new.len())).copied().unwrap_or_default()
}

/// The lengths of the longest common subsequences of all remainders: by how many lines are left of the
/// old text, and then by how many are left of the new one.
fn common_lengths(old: &[&str], new: &[&str]) -> Vec<Vec<u32>> {
    let mut rows = vec![vec![0; new.len() + 1]];
    for line in old.iter().rev() {
        let mut row = vec![0; 1];
        let mut corner = 0;
        let mut beside = 0;
        let above = rows.last().map_or(&[][..], |above| above.get(1..).unwrap_or_default());
        for (other, above) in new.iter().rev().zip(above) {
            beside = if line == other { corner + 1 } else { beside.max(*above) };
            corner = *above;
            row.push(beside);
        }
        rows.push(row);
    }
    rows
}
