//! What a tool's answer says that its body is: a media type, and the name of a file.

use reqwest::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderMap};

use crate::domain::file::{ending_of, is_media_type, is_textual};
use crate::domain::line::single_line;

/// What an answer says of its body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Declared {
    /// `type/subtype` in lower case, without parameters; `None` when it says none that is one.
    pub(super) media_type: Option<String>,
    /// The name of the file that the body is.
    pub(super) file_name: Option<String>,
}

impl Declared {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let text =
            |name| headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
        Self {
            media_type: text(CONTENT_TYPE).and_then(essence),
            file_name: text(CONTENT_DISPOSITION).and_then(file_name),
        }
    }

    pub(super) fn is_json(&self) -> bool {
        self.media_type.as_deref().is_some_and(|media_type| {
            matches!(media_type, "application/json" | "text/json") || media_type.ends_with("+json")
        })
    }

    /// The media type of a body that is a file: one that is neither text nor JSON, XML or a form.
    pub(super) fn file_type(&self) -> Option<&str> {
        self.media_type.as_deref().filter(|media_type| !is_textual(media_type))
    }

    /// What the model is told to call the file: its own name, or that of the tool with an extension.
    pub(super) fn file_id(&self, tool: &str) -> String {
        let ending = || self.media_type.as_deref().and_then(ending_of).unwrap_or("bin");
        let by_tool = || format!("{tool}.{}", ending());
        self.file_name.clone().unwrap_or_else(by_tool)
    }
}

fn essence(content_type: &str) -> Option<String> {
    let essence = content_type.split(';').next().unwrap_or(content_type);
    Some(essence.trim().to_ascii_lowercase()).filter(|essence| is_media_type(essence))
}

/// The file's name of a `Content-Disposition`, without the folders that it may name: it is a name for
/// the model, never a path. The extended spelling comes first, as it can say all characters.
fn file_name(disposition: &str) -> Option<String> {
    let parameters = parameters(disposition);
    let find = |wanted: &str| {
        let found = parameters.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.as_str())
    };
    let extended = find("filename*").and_then(decoded);
    let given = extended.or_else(|| find("filename").map(str::to_owned))?;
    let name = given.rsplit(['/', '\\']).next().unwrap_or_default().trim();
    // What only names a folder names no file.
    Some(single_line(name)).filter(|name| !matches!(name.as_str(), "" | "." | ".."))
}

/// The parameters behind the first word of a header value; values may be quoted.
fn parameters(value: &str) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    let mut rest = value.split_once(';').map_or("", |(_, rest)| rest);
    while let Some((name, tail)) = rest.split_once('=') {
        let (value, after) = parameter_value(tail.trim_start());
        parameters.push((name.trim_matches([';', ' ', '\t']).to_owned(), value));
        rest = after;
    }
    parameters
}

/// A value, and what comes after it.
fn parameter_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, after) = text.split_once(';').unwrap_or((text, ""));
        return (value.trim().to_owned(), after);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, quoted.get(at + 1..).unwrap_or_default()),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            plain => value.push(plain),
        }
    }
    (value, "")
}

/// An extended value, `UTF-8'language'percent-encoded`; `None` in any other form.
fn decoded(value: &str) -> Option<String> {
    let mut pieces = value.splitn(3, '\'');
    let charset = pieces.next()?;
    let encoded = pieces.nth(1)?;
    if !charset.eq_ignore_ascii_case("utf-8") {
        return None;
    }
    percent_decoded(encoded).and_then(|bytes| String::from_utf8(bytes).ok())
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        // A sign is none of the digits, although a number may begin with one.
        let digits = Some(digits).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn declared(media_type: &str, disposition: &str) -> Declared {
        let mut headers = HeaderMap::new();
        for (name, text) in [(CONTENT_TYPE, media_type), (CONTENT_DISPOSITION, disposition)] {
            if !text.is_empty() {
                headers.insert(name, HeaderValue::from_bytes(text.as_bytes()).unwrap());
            }
        }
        Declared::of(&headers)
    }

    #[test]
    fn what_is_neither_text_nor_json_nor_xml_nor_a_form_is_a_file() {
        for (header, expected) in [
            ("image/png", Some("image/png")),
            ("Image/PNG; q=1", Some("image/png")),
            ("application/pdf", Some("application/pdf")),
            ("application/octet-stream", Some("application/octet-stream")),
            ("audio/wav", Some("audio/wav")),
            ("text/html; charset=utf-8", None),
            ("application/json", None),
            ("application/hal+json", None),
            ("application/xml", None),
            ("image/svg+xml", None),
            ("application/x-www-form-urlencoded", None),
            ("png", None),
            ("image/png/x", None),
            ("", None),
        ] {
            assert_eq!(declared(header, "").file_type(), expected, "{header}");
        }
    }

    #[test]
    fn a_file_is_called_by_its_own_name_without_folders() {
        for (disposition, expected) in [
            ("attachment; filename=a.png", "a.png"),
            ("attachment; filename=\"a b;\\\"c\\\".png\"; size=3", "a b;\"c\".png"),
            ("attachment; FileName = \"../../etc/passwd\"", "passwd"),
            ("attachment; filename=\"C:\\\\x\\\\y.png\"", "y.png"),
            (
                "inline; filename=a.png; filename*=UTF-8''na%C3%AFve%20%E2%80%AE.png",
                "na\u{ef}ve \u{fffd}.png",
            ),
            ("inline; filename*=latin1''x.png; filename=b.png", "b.png"),
            ("inline; filename*=UTF-8''%FF; filename=b.png", "b.png"),
            ("inline; filename*=UTF-8''%+1; filename=b.png", "b.png"),
            ("inline; filename=\"\"", "shot.png"),
            ("inline; filename=\"a/\"", "shot.png"),
            ("inline; filename=..", "shot.png"),
            ("inline", "shot.png"),
            ("inline; filename", "shot.png"),
            ("", "shot.png"),
        ] {
            let file = declared("image/png", disposition);
            assert_eq!(file.file_id("shot"), expected, "{disposition}");
        }
        assert_eq!(declared("application/x-odd", "").file_id("shot"), "shot.bin");
    }

    #[test]
    fn the_name_of_a_file_is_one_short_line() {
        let long = declared("image/png", &format!("inline; filename=\"a\tb{}\"", "x".repeat(500)));
        let id = long.file_id("shot");
        assert!(id.starts_with("a\u{fffd}b") && id.chars().count() <= 129, "{id}");
    }
}
