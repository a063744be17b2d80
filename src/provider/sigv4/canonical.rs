//! The canonical form of a request, which both ends must write alike.

use std::collections::BTreeMap;

use reqwest::Url;

use super::{Signable, hash, hex};

/// The canonical request and the names of the headers it covers. `added` are headers that the
/// signature brings.
pub(super) fn request(
    request: &Signable<'_>,
    added: &[(&'static str, String)],
) -> (String, String) {
    let host = host(request.url);
    let mut headers = BTreeMap::from([("host".to_owned(), host)]);
    let added = added.iter().map(|(name, value)| (*name, value.as_str()));
    for (name, value) in request.headers.iter().copied().chain(added) {
        let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        let known = headers.entry(name.to_ascii_lowercase());
        known.and_modify(|all| *all = format!("{all},{value}")).or_insert(value);
    }
    let signed = headers.keys().map(String::as_str).collect::<Vec<_>>().join(";");
    let lines: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let whole = format!(
        "{}\n{}\n{}\n{}\n{signed}\n{}",
        request.method,
        path(request.url.path()),
        query(request.url.query().unwrap_or_default()),
        lines.concat(),
        hex(&hash(request.body)),
    );
    (whole, signed)
}

/// The host as a client writes it: without the port that its scheme implies.
fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// The path as sent, without empty and dot segments, encoded once more.
fn path(sent: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in sent.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            kept => segments.push(kept),
        }
    }
    let end = if sent.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    let encoded: Vec<String> = segments.iter().map(|segment| encode(segment.as_bytes())).collect();
    format!("/{}{end}", encoded.join("/"))
}

/// The query's pairs, each spelled in one way, in order.
fn query(sent: &str) -> String {
    let mut pairs: Vec<(String, String)> = sent
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (encode(&decode(name)), encode(&decode(value))))
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

/// Percent-encodes everything but unreserved characters.
fn encode(bytes: &[u8]) -> String {
    let spelt = |byte: &u8| match byte {
        b'-' | b'.' | b'_' | b'~' => char::from(*byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    bytes.iter().map(spelt).collect::<Vec<_>>().concat()
}

/// Undoes percent-encoding; what is none stays.
fn decode(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = (byte == b'%').then(|| after.split_first_chunk::<2>()).flatten();
        let plain = escaped.and_then(|(digits, after)| Some((unhex(*digits)?, after)));
        let (byte, after) = plain.unwrap_or((byte, after));
        out.push(byte);
        rest = after;
    }
    out
}

fn unhex([high, low]: [u8; 2]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}
