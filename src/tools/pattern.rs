//! How much a pattern may have to do at every character of a text.

use std::iter::Peekable;
use std::str::Chars;

/// The number of elements of a pattern with all its counted repetitions written out, at least roughly: so
/// many states it can be in at once, and has to follow.
pub(super) fn weight(pattern: &str) -> u64 {
    let mut scan = Scan { rest: pattern.chars().peekable(), open: Vec::new(), total: 0, last: 0 };
    while let Some(c) = scan.rest.next() {
        scan.take(c);
    }
    // Groups that are left open are refused when the pattern is compiled.
    scan.open.into_iter().fold(scan.total, u64::saturating_add)
}

struct Scan<'a> {
    rest: Peekable<Chars<'a>>,
    /// What came before each group that is open.
    open: Vec<u64>,
    /// What came in this group.
    total: u64,
    /// The element before, which a count repeats.
    last: u64,
}

impl Scan<'_> {
    fn take(&mut self, c: char) {
        match c {
            '\\' => {
                self.rest.next();
                self.element(1);
            }
            '[' => self.class(),
            '(' => {
                self.open.push(std::mem::take(&mut self.total));
                self.last = 0;
                // What a group begins with, as in `(?:`, is no element.
                self.rest.next_if_eq(&'?').and_then(|_| self.rest.next_if_eq(&':'));
            }
            ')' => {
                let inner = std::mem::take(&mut self.total);
                self.total = self.open.pop().unwrap_or_default();
                self.element(inner);
            }
            '{' => self.repeat(),
            '*' | '+' | '?' | '|' | '^' | '$' => {}
            _ => self.element(1),
        }
    }

    const fn element(&mut self, weight: u64) {
        self.total = self.total.saturating_add(weight);
        self.last = weight;
    }

    /// Skips a class of characters, which can hold others.
    fn class(&mut self) {
        let mut depth = 1_u32;
        self.rest.next_if_eq(&'^');
        self.rest.next_if_eq(&']');
        while let Some(c) = self.rest.next().filter(|_| depth > 0) {
            match c {
                '\\' => drop(self.rest.next()),
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        self.element(1);
    }

    /// Repeats the element before as often as a count says, at most.
    fn repeat(&mut self) {
        let mut count = String::new();
        while let Some(c) = self.rest.next_if(|c| *c != '}') {
            count.push(c);
        }
        self.rest.next();
        let bounds = count.split(',').filter_map(|bound| bound.trim().parse::<u64>().ok());
        let most = bounds.max().unwrap_or(1);
        let more = self.last.saturating_mul(most.saturating_sub(1));
        self.total = self.total.saturating_add(more);
        self.last = self.last.saturating_mul(most);
    }
}
