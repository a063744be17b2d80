//! Words and file names that say nothing, and notes to oneself.

use crate::scan::{self, File};
use crate::{Finding, bites, hold};

/// Notes to oneself; put together here, so that this file does not hold them.
const NOTES: [&str; 4] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), "dbg!"];

const FILES: [&str; 3] = ["utils.rs", "helpers.rs", "common.rs"];

const VAGUE: &str = concat!("man", "ager");

fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let notes = NOTES.iter().filter(|note| holds_word(line, note));
        findings.extend(notes.filter(|note| **note != "dbg!" || !is_spelt_here(&file.path)).map(
            |note| {
                let advice = "do it, or file an issue and leave it out";
                Finding::new(&file.path, at + 1, format!("`{note}`"), advice)
            },
        ));
    }
    let advice = "name it after what it does";
    let name = file.path.rsplit('/').next().unwrap_or_default();
    if FILES.contains(&name) || file.is_rust() && name.to_lowercase().contains(VAGUE) {
        findings.push(Finding::new(&file.path, 1, format!("a file named `{name}`"), advice));
    }
    let words = file.tokens.iter().filter(|token| token.is_word());
    findings.extend(
        words
            .filter(|token| token.text.to_lowercase().contains(VAGUE))
            .map(|token| Finding::new(&file.path, token.line, format!("`{}`", token.text), advice)),
    );
    findings
}

/// The guard itself and clippy's settings name the macro.
fn is_spelt_here(path: &str) -> bool {
    path == "tests/tidy/words.rs"
}

fn holds_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (line.split_at(at).0, line.split_at(at + word.len()).1);
        let glued = |c: char| c.is_alphanumeric() || c == '_';
        !before.chars().next_back().is_some_and(glued) && !after.chars().next().is_some_and(glued)
    })
}

#[test]
fn no_stray_words() {
    hold(scan::house().iter().flat_map(check));
}

#[test]
fn notes_and_vague_names_are_found() {
    let note = NOTES[0];
    let text = format!(
        "//! {note}: x\nfn f() {{ dbg!(1); }}\nstruct Run{}s;\nconst {note}S: u8 = 1;\n",
        "Manager"
    );
    bites(&check(&File::new("src/x.rs", &text)), "`", &[1, 2, 3]);
    bites(&check(&File::new("src/http/utils.rs", "")), "a file named", &[1]);
    bites(&check(&File::new("src/run_manager.rs", "")), "a file named", &[1]);
}
