//! Searching for patterns in bounded time: in windows, and for so many places at most.

use regex::Regex;

use super::scan::Hit;
use super::sweep::Window;

/// The most places of a text that are replaced one by one. One placeholder stands for a text with more:
/// so many would make it grow, and finding them takes time with its square.
pub(super) const MAX_HITS: usize = 10_000;

/// How much of a text the places begin in that are looked for at once, in bytes.
const WINDOW: usize = 16_384;

/// How long a match may be to be found wherever it begins, in bytes.
const MAX_MATCH: usize = 4_096;

/// Adds what a pattern matches between two offsets.
pub(super) fn search(
    (rule, regex): (usize, &Regex),
    window: Window<'_>,
    (from, to): (usize, usize),
    hits: &mut Vec<Hit>,
) {
    let text = window.between(from, to);
    let mut at = 0;
    while at < text.len() && hits.len() <= MAX_HITS {
        let next = text.ceil_char_boundary(at + WINDOW);
        let seen = text.get(..text.ceil_char_boundary(next + MAX_MATCH)).unwrap_or(text);
        while let Some(found) = regex.find_at(seen, at).filter(|m| m.start() < next) {
            hits.push(Hit { start: from + found.start(), end: from + found.end(), rule });
            at = found.end();
            if hits.len() > MAX_HITS || at >= next {
                break;
            }
        }
        at = at.max(next);
    }
}

/// The places; one that takes all of the text when there are too many.
pub(super) fn bounded(hits: Vec<Hit>, (start, end): (usize, usize)) -> Vec<Hit> {
    match hits.first() {
        Some(Hit { rule, .. }) if hits.len() > MAX_HITS => vec![Hit { start, end, rule: *rule }],
        _ => hits,
    }
}
