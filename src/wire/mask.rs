//! Keeps key fragments that providers echo in their error texts out of the log.

/// The longest excerpt of a provider's text that is kept, in characters.
const EXCERPT: usize = 500;

/// How words begin that name a credential or an account.
const SECRET_PREFIXES: &[&str] =
    &["sk-", "sk_", "gsk_", "xai-", "pplx-", "hf_", "AIza", "org-", "proj_", "Bearer"];

/// The beginning of a provider's text, with words that look like credentials masked.
pub(super) fn excerpt(text: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    let mut room = EXCERPT;
    for letter in text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }) {
        if room == 0 {
            break;
        }
        room -= 1;
        if letter.is_ascii_alphanumeric() || "-_*.".contains(letter) {
            word.push(letter);
        } else {
            end_word(&mut out, &mut word);
            out.push(letter);
        }
    }
    end_word(&mut out, &mut word);
    out
}

fn end_word(out: &mut String, word: &mut String) {
    let secret = SECRET_PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    out.push_str(if secret { "[masked]" } else { word });
    word.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_look_like_credentials_are_masked() {
        for (text, kept) in [
            ("Incorrect API key provided: sk-abc***wxyz.", "Incorrect API key provided: [masked]"),
            ("key \"gsk_1\" of org-9", "key \"[masked]\" of [masked]"),
            ("a task-list, plainly", "a task-list, plainly"),
            ("two\nlines", "two lines"),
        ] {
            assert_eq!(excerpt(text), kept);
        }
    }

    #[test]
    fn a_long_text_is_cut() {
        assert_eq!(excerpt(&"é ".repeat(1_000)).chars().count(), EXCERPT);
    }
}
