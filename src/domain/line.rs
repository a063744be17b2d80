//! Text of others as a single line: names, types and identifiers that stand inside of sentences.

/// A text as one printable line of bounded length: a name or a type that someone else wrote.
///
/// Control, bidirectional and invisible characters become U+FFFD, so that the line reads as it is.
pub fn single_line(text: &str) -> String {
    line_of(text, 128)
}

/// The same of another length.
pub fn line_of(text: &str, max_chars: usize) -> String {
    let mut line: String = text.chars().take(max_chars).map(printable).collect();
    if text.chars().nth(max_chars).is_some() {
        line.push('…');
    }
    line
}

/// A text of others in which every character can be seen, or is white space that breaks nothing up but
/// lines; it may have several.
pub fn visible(text: &str) -> String {
    let shown = |c| if matches!(c, '\n' | '\t') { c } else { printable(c) };
    text.replace("\r\n", "\n").chars().map(shown).collect()
}

/// The same, of bounded length.
pub fn plain_text(text: &str, most: usize) -> String {
    let shown = visible(text);
    let mut plain: String = shown.chars().take(most).collect();
    if shown.chars().nth(most).is_some() {
        plain.push('…');
    }
    plain
}

fn printable(c: char) -> char {
    let invisible = matches!(c,
        '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}');
    if c.is_control() || invisible { char::REPLACEMENT_CHARACTER } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_line_has_no_break_and_no_hidden_character() {
        assert_eq!(single_line("a\nb\u{202e}c\u{2028}d"), "a\u{fffd}b\u{fffd}c\u{fffd}d");
        assert_eq!(single_line(&"x".repeat(200)).chars().count(), 129);
        assert_eq!(single_line("Ünï cödé"), "Ünï cödé");
    }
}
