//! URL templates: arguments fill path segments and query values, and cannot become anything else.

use url::Url;

use super::arguments::{Argument, Arguments, is_null, plain_text, query_values};

/// Why a text is not a URL template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum TemplateError {
    /// It is not an absolute URL.
    #[error("it is not an absolute URL with a host")]
    NotAUrl,
    /// It holds something that URL parsers read in more than one way.
    #[error("white space, control characters and backslashes cannot stand in a URL")]
    Ambiguous,
    /// A placeholder stands where arguments must not reach.
    #[error("placeholders may fill path segments and query values only")]
    Misplaced,
    /// A brace has no partner or nothing inside.
    #[error("a placeholder is a name in one pair of braces")]
    Malformed,
}

/// An argument that cannot fill its place in the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misfit {
    /// The argument's name.
    pub(super) argument: String,
    /// What is wrong with it.
    pub(super) text: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Argument(String),
}

/// A URL with places for arguments in its path and query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UrlTemplate {
    origin: Url,
    segments: Vec<Vec<Piece>>,
    /// Each pair's literal beginning, up to and with its `=`, and its value.
    pairs: Vec<(String, Vec<Piece>)>,
}

impl UrlTemplate {
    pub(super) fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
            return Err(TemplateError::Ambiguous);
        }
        let (scheme, rest) = text.split_once("://").ok_or(TemplateError::NotAUrl)?;
        let cut = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at_checked(cut).ok_or(TemplateError::NotAUrl)?;
        if scheme.contains(['{', '}']) || authority.contains(['{', '}']) {
            return Err(TemplateError::Misplaced);
        }
        let origin =
            Url::parse(&format!("{scheme}://{authority}/")).map_err(|_| TemplateError::NotAUrl)?;
        let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        if fragment.contains(['{', '}']) {
            return Err(TemplateError::Misplaced);
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.strip_prefix('/').unwrap_or(path);
        Ok(Self {
            origin,
            segments: path.split('/').map(pieces).collect::<Result<_, _>>()?,
            pairs: query
                .split('&')
                .filter(|pair| !pair.is_empty())
                .map(pair)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Scheme, host and port, which no argument can change.
    pub(super) const fn origin(&self) -> &Url {
        &self.origin
    }

    /// The names of all placeholders.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        let values = self.pairs.iter().map(|(_, value)| value);
        self.segments.iter().chain(values).flatten().filter_map(|piece| match piece {
            Piece::Literal(_) => None,
            Piece::Argument(name) => Some(name.as_str()),
        })
    }

    /// Fills the places with arguments and appends `extra` arguments as query values.
    ///
    /// A query pair whose argument is absent or null is left out.
    pub(super) fn fill(
        &self,
        arguments: &Arguments,
        extra: &[Argument<'_>],
    ) -> Result<Url, Vec<Misfit>> {
        let (segments, misfits) = self.fill_path(arguments);
        if !misfits.is_empty() {
            return Err(misfits);
        }
        let mut pairs: Vec<String> = self
            .pairs
            .iter()
            .filter_map(|(name, value)| fill_pair(name, value, arguments))
            .collect();
        for (name, value) in extra {
            pairs.extend(
                query_values(value)
                    .iter()
                    .map(|text| format!("{}={}", percent_encode(name), percent_encode(text))),
            );
        }
        let mut url = self.origin.clone();
        url.set_path(&format!("/{}", segments.join("/")));
        url.set_query(if pairs.is_empty() { None } else { Some(pairs.join("&")) }.as_deref());
        Ok(url)
    }

    fn fill_path(&self, arguments: &Arguments) -> (Vec<String>, Vec<Misfit>) {
        let mut misfits = Vec::new();
        let segments = self
            .segments
            .iter()
            .map(|segment| {
                let (text, misfit) = fill_segment(segment, arguments);
                misfits.extend(misfit);
                text
            })
            .collect();
        (segments, misfits)
    }
}

fn pair(text: &str) -> Result<(String, Vec<Piece>), TemplateError> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    if name.contains(['{', '}']) {
        return Err(TemplateError::Misplaced);
    }
    let head = if text.contains('=') { format!("{name}=") } else { name.to_owned() };
    Ok((head, pieces(value)?))
}

fn pieces(text: &str) -> Result<Vec<Piece>, TemplateError> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((literal, tail)) = rest.split_once('{') {
        let (name, tail) = tail.split_once('}').ok_or(TemplateError::Malformed)?;
        if name.is_empty() || name.contains('{') || literal.contains('}') {
            return Err(TemplateError::Malformed);
        }
        found.push(Piece::Literal(literal.to_owned()));
        found.push(Piece::Argument(name.to_owned()));
        rest = tail;
    }
    if rest.contains('}') {
        return Err(TemplateError::Malformed);
    }
    found.push(Piece::Literal(rest.to_owned()));
    Ok(found)
}

/// Fills one segment. A filled segment that is empty or consists of dots only would name another
/// resource, and URL parsers resolve the encoded dots as well, so such an argument is refused.
fn fill_segment(pieces: &[Piece], arguments: &Arguments) -> (String, Option<Misfit>) {
    let mut text = String::new();
    let mut last = None;
    for piece in pieces {
        match piece {
            Piece::Literal(literal) => text.push_str(literal),
            Piece::Argument(name) => {
                let Some(value) = arguments.get(name).filter(|value| !is_null(value)) else {
                    return (text, Some(misfit(name, "is needed for the tool's URL")));
                };
                text.push_str(&percent_encode(&plain_text(value)));
                last = Some(name);
            }
        }
    }
    // A literal of the template may spell its dots encoded.
    let plain = text.to_ascii_lowercase().replace("%2e", ".");
    let changes_structure = matches!(plain.as_str(), "" | "." | "..");
    let refused = last.filter(|_| changes_structure);
    (text, refused.map(|name| misfit(name, "must not be empty, '.' or '..'")))
}

fn misfit(argument: &str, text: &'static str) -> Misfit {
    Misfit { argument: argument.to_owned(), text }
}

fn fill_pair(name: &str, value: &[Piece], arguments: &Arguments) -> Option<String> {
    let mut text = name.to_owned();
    for piece in value {
        match piece {
            Piece::Literal(literal) => text.push_str(literal),
            Piece::Argument(name) => {
                let value = arguments.get(name).filter(|value| !is_null(value))?;
                text.push_str(&percent_encode(&plain_text(value)));
            }
        }
    }
    Some(text)
}

/// Encodes everything but letters, digits, `-`, `_`, `~` and `.`.
pub(super) fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-_~.".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let digits = [byte >> 4, byte & 15].map(|half| char::from_digit(half.into(), 16));
            encoded.push('%');
            encoded.extend(digits.into_iter().flatten().map(|digit| digit.to_ascii_uppercase()));
        }
        encoded
    })
}
