//! Files that a person or a tool hands to a model.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A file, whole or as an address that the provider fetches.
///
/// Text is inlined for the model. What is no text goes to models that read such files; others are told
/// that it was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FilePart {
    /// What the model is told to call it, for example its name; 1–256 characters.
    #[schema(min_length = 1, max_length = 256, examples("invoice.pdf"))]
    pub id: String,
    /// Its media type, `type/subtype` in lower case, without parameters.
    #[schema(pattern = "^[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+$", examples("image/png"))]
    pub media_type: String,
    /// Its content.
    pub source: FileSource,
}

/// Where a file's content is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "source_kind", rename_all = "snake_case")]
pub enum FileSource {
    /// Here, as text.
    Text(FileText),
    /// Here, as bytes.
    Base64(FileBytes),
    /// At an address.
    Url(FileUrl),
}

/// Content as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileText {
    /// The text.
    pub text: String,
}

/// Content as bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileBytes {
    /// The bytes in standard base64 with padding. How many there may be is decided by the request that
    /// brings them: a run's by `AGENTLING_BODY_LIMIT_BYTES`, a memory document's by
    /// `AGENTLING_MEMORY_LIMIT_BYTES`. An answer of a tool has at most 4 MiB.
    #[schema(examples("iVBORw0KGgo="))]
    pub base64: String,
}

/// Content at an address, which only the provider fetches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FileUrl {
    /// An `https` address of at most 2,048 characters.
    #[schema(max_length = 2048, examples("https://files.example/cat.png"))]
    pub url: String,
}

/// The most characters of a file's id.
pub const MAX_FILE_ID_CHARS: usize = 256;

/// The most characters of a file's address.
pub const MAX_FILE_URL_CHARS: usize = 2_048;

/// Endings of names, and the media types that they stand for.
const ENDINGS: &[(&str, &str)] = &[
    ("csv", "text/csv"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("html", "text/html"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("json", "application/json"),
    ("md", "text/markdown"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("ogg", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("txt", "text/plain"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("zip", "application/zip"),
];

/// The usual ending of the name of a file of a media type.
pub fn ending_of(media_type: &str) -> Option<&'static str> {
    ENDINGS.iter().find(|(_, known)| *known == media_type).map(|(ending, _)| *ending)
}

/// The media type that the ending of an address's path stands for.
pub fn media_type_at(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next()?;
    let (_, ending) = path.rsplit('/').next()?.rsplit_once('.')?;
    let found = ENDINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending));
    found.map(|(_, media_type)| *media_type)
}

/// Something about a file that keeps it from being stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFlaw {
    /// Where, as a JSON pointer within the file.
    pub pointer: &'static str,
    /// What is wrong.
    pub message: &'static str,
}

impl FilePart {
    /// What is wrong with it, if anything is.
    pub fn flaw(&self) -> Option<FileFlaw> {
        let flaw = |pointer, message| Some(FileFlaw { pointer, message });
        let n_chars = self.id.chars().count();
        if n_chars == 0 || n_chars > MAX_FILE_ID_CHARS {
            return flaw("/id", "must have 1 to 256 characters");
        }
        if !is_media_type(&self.media_type) {
            return flaw("/media_type", "must be `type/subtype` in lower case, without parameters");
        }
        match &self.source {
            FileSource::Text(_) => None,
            FileSource::Base64(FileBytes { base64 }) if is_base64(base64) => None,
            FileSource::Base64(_) => flaw("/source/base64", "must be standard base64 with padding"),
            FileSource::Url(FileUrl { url }) if is_https(url) => None,
            FileSource::Url(_) => {
                flaw("/source/url", "must be an `https` address of at most 2,048 characters")
            }
        }
    }

    /// What is wrong with it as something that a caller hands to a model, beside what is wrong with any
    /// file: bytes that are not what they are said to be, and pictures that are programs.
    pub fn misfit(&self) -> Option<FileFlaw> {
        let flaw = |message| Some(FileFlaw { pointer: "/media_type", message });
        match &self.source {
            FileSource::Text(_) => None,
            _ if self.media_type == "image/svg+xml" => flaw("SVG is taken as text only"),
            FileSource::Url(_) => None,
            FileSource::Base64(FileBytes { base64 }) => {
                let known = BEGINNINGS.iter().find(|(kind, _)| *kind == self.media_type);
                let fits = known.is_none_or(|(_, beginning)| base64.starts_with(beginning));
                if fits { None } else { flaw("the bytes are not of this media type") }
            }
        }
    }
}

/// How the base64 of files of a media type begins, for those whose first three bytes are always the same.
const BEGINNINGS: &[(&str, &str)] = &[
    ("application/pdf", "JVBE"),
    ("audio/wav", "UklG"),
    ("image/gif", "R0lG"),
    ("image/jpeg", "/9j/"),
    ("image/png", "iVBO"),
    ("image/webp", "UklG"),
];

/// Whether content of a media type is text: what is text by name, and what JSON, XML or a form is
/// written in.
pub fn is_textual(media_type: &str) -> bool {
    const APPLICATIONS: &[&str] = &[
        "json",
        "xml",
        "yaml",
        "x-yaml",
        "toml",
        "javascript",
        "sql",
        "graphql",
        "jsonl",
        "x-ndjson",
        "x-www-form-urlencoded",
    ];
    match media_type.split_once('/') {
        Some(("text" | "multipart" | "message", _)) => true,
        Some((kind, subtype)) => {
            (kind == "application" && APPLICATIONS.contains(&subtype))
                || subtype.ends_with("+json")
                || subtype.ends_with("+xml")
                || subtype.ends_with("+yaml")
        }
        None => false,
    }
}

/// Whether a text is a media type as files have it: `type/subtype` in lower case, without parameters.
pub fn is_media_type(text: &str) -> bool {
    let word = |word: &str| {
        let fits =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"!#$&^_.+-".contains(&b);
        (1..=127).contains(&word.len()) && word.bytes().all(fits)
    };
    text.split_once('/').is_some_and(|(kind, subtype)| word(kind) && word(subtype))
}

/// Whether a text is base64 in the form that every provider accepts. Only the form is looked at: what
/// the bytes are is between the sender and the model.
fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.len() - body.len() <= 2
        && body.bytes().all(fits)
}

fn is_https(url: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic();
    url.len() <= MAX_FILE_URL_CHARS
        && url.strip_prefix("https://").is_some_and(|rest| !rest.is_empty())
        && url.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(id: &str, media_type: &str, source: FileSource) -> FilePart {
        FilePart { id: id.to_owned(), media_type: media_type.to_owned(), source }
    }

    fn base64(text: &str) -> FileSource {
        FileSource::Base64(FileBytes { base64: text.to_owned() })
    }

    fn url(text: &str) -> FileSource {
        FileSource::Url(FileUrl { url: text.to_owned() })
    }

    fn pointer(file: &FilePart) -> Option<&'static str> {
        file.flaw().map(|flaw| flaw.pointer)
    }

    #[test]
    fn a_file_is_named_typed_and_readable() {
        for source in [base64("aGk="), base64("aGkh"), url("https://a.example/x?y#z")] {
            assert_eq!(pointer(&file("a b.png", "image/svg+xml", source)), None);
        }
    }

    #[test]
    fn what_a_caller_hands_over_is_what_it_is_said_to_be() {
        let text = || FileSource::Text(FileText { text: "<svg/>".to_owned() });
        for (media_type, source, fits) in [
            ("image/png", base64("iVBORw=="), true),
            ("image/png", base64("/9j/4A=="), false),
            ("image/jpeg", base64("/9j/4A=="), true),
            ("application/pdf", base64("aGk="), false),
            ("text/plain", base64("/w=="), true),
            ("image/svg+xml", base64("aGk="), false),
            ("image/svg+xml", url("https://a.example/a.svg"), false),
            ("image/svg+xml", text(), true),
        ] {
            let misfit = file("x", media_type, source).misfit();
            assert_eq!(misfit.is_none(), fits, "{media_type}: {misfit:?}");
        }
    }

    #[test]
    fn endings_stand_for_media_types_and_the_other_way_round() {
        assert_eq!(ending_of("image/jpeg"), Some("jpg"));
        assert_eq!(ending_of("image/x-odd"), None);
        for (url, expected) in [
            ("https://a.example/b/c.PNG?d=e.pdf#f.gif", Some("image/png")),
            ("https://a.example/b.png/c", None),
            ("https://a.example/c.odd", None),
            ("https://a.example/", None),
        ] {
            assert_eq!(media_type_at(url), expected, "{url}");
        }
    }

    #[test]
    fn text_is_told_from_what_only_a_program_reads() {
        for media_type in [
            "text/plain",
            "text/csv",
            "application/json",
            "application/problem+json",
            "application/xml",
            "image/svg+xml",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
        ] {
            assert!(is_textual(media_type), "{media_type}");
        }
        for media_type in
            ["image/png", "audio/wav", "video/mp4", "application/pdf", "application/zip", "json"]
        {
            assert!(!is_textual(media_type), "{media_type}");
        }
    }

    #[test]
    fn what_a_provider_would_choke_on_is_found_where_it_is() {
        let text = || FileSource::Text(FileText { text: String::new() });
        assert_eq!(pointer(&file("", "a/b", text())), Some("/id"));
        assert_eq!(pointer(&file(&"x".repeat(257), "a/b", text())), Some("/id"));
        for media_type in ["", "image", "image/", "/png", "Image/png", "a/b; c=d", "a/b/c", "a/ü"]
        {
            assert_eq!(
                pointer(&file("x", media_type, text())),
                Some("/media_type"),
                "{media_type}"
            );
        }
        for bytes in ["", "a", "aGk", "a===", "====", "aG k", "aGk_", "aG=k"] {
            assert_eq!(
                pointer(&file("x", "a/b", base64(bytes))),
                Some("/source/base64"),
                "{bytes}"
            );
        }
        for address in ["http://a.example/", "https://", "ftp://a", "https://a b", "data:,x"] {
            assert_eq!(pointer(&file("x", "a/b", url(address))), Some("/source/url"), "{address}");
        }
    }
}
