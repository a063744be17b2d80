//! Files: what Converse calls their formats, and the names of documents.

use std::borrow::Cow;
use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::domain::file::{FilePart, FileSource};

/// The longest name of a document, in characters, with room for a number.
const LONGEST: usize = 180;

/// Media types whose format is not called like their subtype.
const FORMATS: &[(&str, &str)] = &[
    ("application/msword", "doc"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("text/plain", "txt"),
    ("text/markdown", "md"),
];

/// What Converse calls the format of a file.
pub(super) fn format(media_type: &str) -> &str {
    let known = FORMATS.iter().find(|(known, _)| *known == media_type).map(|(_, format)| *format);
    known.unwrap_or_else(|| media_type.rsplit('/').next().unwrap_or_default())
}

/// The bytes of a file, as base64. An address has none: the renderer lets none through.
pub(super) fn bytes(file: &FilePart) -> Cow<'_, str> {
    match &file.source {
        FileSource::Base64(source) => Cow::Borrowed(&source.base64),
        FileSource::Text(source) => Cow::Owned(BASE64_STANDARD.encode(&source.text)),
        FileSource::Url(_) => Cow::Borrowed(""),
    }
}

/// The names of the documents of one conversation, of which no two may be equal.
///
/// A name depends on the documents before it alone, so that a longer conversation begins like the
/// shorter one.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// The name of the next document: as much of its id as is accepted.
    pub(super) fn next(&mut self, id: &str) -> String {
        let plain = fitted(id);
        let mut name = plain.clone();
        let mut number = self.taken.len();
        while !self.taken.insert(name.clone()) {
            number = number.saturating_add(1);
            name = format!("{plain} {number}");
        }
        name
    }
}

/// Letters, digits, hyphens and brackets, with single spaces between words.
fn fitted(id: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || "-()[]".contains(c);
    let spaced: String = id.chars().map(|c| if is_kept(c) { c } else { ' ' }).collect();
    let name = spaced.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    let name: String = name.chars().take(LONGEST).collect();
    if name.is_empty() { "document".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_distinct_names_of_accepted_letters() {
        let mut names = Names::default();
        let told = ["a.pdf", "a/pdf", "</x> \n y", "é", "", "a pdf 2"].map(|id| names.next(id));
        assert_eq!(told, ["a pdf", "a pdf 2", "x y", "document", "document 5", "a pdf 2 6"]);
        assert_eq!(names.next(&"x".repeat(500)).len(), LONGEST);
    }

    #[test]
    fn formats_are_called_as_converse_calls_them() {
        for (media_type, expected) in [
            ("image/jpeg", "jpeg"),
            ("application/pdf", "pdf"),
            ("text/plain", "txt"),
            ("application/msword", "doc"),
        ] {
            assert_eq!(format(media_type), expected);
        }
    }
}
