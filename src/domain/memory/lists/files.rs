//! Files in message lists of others.
//!
//! A file of ours has an id, by which the model is told of it. Pydantic AI gives its files identifiers,
//! and OpenAI some of them names; a file that has neither is called by its place, `file-1` for the first
//! one of its message. That is no invented identity: it says nothing that the document does not say, the
//! same document always reads the same, and nothing but the text around the file refers to it.

use super::unsupported;
use crate::domain::file::{FileBytes, FilePart, FileSource, FileUrl, media_type_at};
use crate::domain::memory::read::{Fields, Node, Read};

/// The kinds of content of Pydantic AI that are files at an address, and what they are when neither the
/// document nor the address says more.
const AT_ADDRESS: [(&str, &str); 4] = [
    ("image-url", "image/x-unknown"),
    ("audio-url", "audio/x-unknown"),
    ("video-url", "video/x-unknown"),
    ("document-url", "application/octet-stream"),
];

/// The kind of content of Pydantic AI that is a file as bytes.
const BYTES: &str = "binary";

/// Whether content of Pydantic AI of this kind is a file.
pub(super) fn is_file(kind: &str) -> bool {
    kind == BYTES || AT_ADDRESS.iter().any(|(known, _)| *known == kind)
}

/// Reads a file of Pydantic AI, the `nth` of its message, from 1.
pub(super) fn content(
    node: &Node<'_>,
    kind: &str,
    fields: &mut Fields<'_>,
    nth: usize,
) -> Read<FilePart> {
    let id = fields.optional("identifier", Node::text);
    let media_type = fields.optional("media_type", Node::text);
    let (member, source) = if kind == BYTES {
        ("/data", fields.required("data", Node::text).map(|data| bytes(&data)))
    } else {
        ("/url", fields.required("url", Node::text).map(|url| FileSource::Url(FileUrl { url })))
    };
    let (id, media_type, source) = (id?, media_type?, source?);
    let by_kind =
        AT_ADDRESS.iter().find(|(known, _)| *known == kind).map(|(_, media_type)| *media_type);
    let media_type = media_type.as_deref().or_else(|| typed_by_address(&source)).or(by_kind);
    let file = FilePart {
        id: id.unwrap_or_else(|| by_place(nth)),
        media_type: essence(media_type.unwrap_or("application/octet-stream")),
        source,
    };
    checked(node, file, ["/identifier", "/media_type", member])
}

/// Reads the file that a part of an OpenAI chat message is; `None` for a part of another type.
pub(super) fn chat_part(
    node: &Node<'_>,
    kind: &str,
    fields: &mut Fields<'_>,
    nth: usize,
) -> Option<Read<FilePart>> {
    match kind {
        "image_url" => Some(image(node, fields, nth)),
        "input_audio" => Some(audio(node, fields, nth)),
        "file" => Some(named_file(node, fields, nth)),
        _ => None,
    }
}

fn image(node: &Node<'_>, fields: &mut Fields<'_>, nth: usize) -> Read<FilePart> {
    let url = fields.required("image_url", |node| node.object()?.required("url", Node::text))?;
    let places = ["", "/image_url/url", "/image_url/url"];
    let (media_type, source) = data_url(&url).unwrap_or_else(|| {
        let media_type = media_type_at(&url).filter(|found| found.starts_with("image/"));
        (media_type.unwrap_or("image/x-unknown").to_owned(), FileSource::Url(FileUrl { url }))
    });
    let file = FilePart { id: by_place(nth), media_type, source };
    checked(node, file, places)
}

fn audio(node: &Node<'_>, fields: &mut Fields<'_>, nth: usize) -> Read<FilePart> {
    let (data, format) = fields.required("input_audio", |node| {
        let mut fields = node.object()?;
        let data = fields.required("data", Node::text);
        let format = fields.required("format", Node::text);
        Ok((data?, format?))
    })?;
    let format = if format == "mp3" { "mpeg" } else { &format };
    let media_type = format!("audio/{format}");
    let file = FilePart { id: by_place(nth), media_type, source: bytes(&data) };
    checked(node, file, ["", "/input_audio/format", "/input_audio/data"])
}

fn named_file(node: &Node<'_>, fields: &mut Fields<'_>, nth: usize) -> Read<FilePart> {
    let (name, (media_type, source)) = fields.required("file", |node| {
        let mut fields = node.object()?;
        let name = fields.optional("filename", Node::text);
        let stored = fields.optional("file_id", |node| {
            Err::<(), _>(unsupported(node, "a file that only its provider has"))
        });
        let data = fields.optional("file_data", |node| {
            let message = "a `data:` URL with a media type and base64 is expected here";
            data_url(&node.text()?).ok_or_else(|| node.flaw("invalid_value", message))
        });
        stored?;
        let missing = || unsupported(node, "a file without content");
        Ok((name?, data?.ok_or_else(missing)?))
    })?;
    let file = FilePart { id: name.unwrap_or_else(|| by_place(nth)), media_type, source };
    checked(node, file, ["/file/filename", "/file/file_data", "/file/file_data"])
}

fn by_place(nth: usize) -> String {
    format!("file-{nth}")
}

/// A file, unless something about it keeps it from being stored. `places` are those of its id, its media
/// type and its content below the node.
fn checked(node: &Node<'_>, file: FilePart, [id, media_type, source]: [&str; 3]) -> Read<FilePart> {
    let Some(flaw) = file.flaw() else { return Ok(file) };
    let place = match flaw.pointer {
        "/id" => id,
        "/media_type" => media_type,
        _ => source,
    };
    Err(node.flaw_below(place, "invalid_value", flaw.message))
}

/// Bytes in base64. Pydantic AI writes it with the alphabet for addresses.
fn bytes(data: &str) -> FileSource {
    let base64 = data.replace('-', "+").replace('_', "/");
    FileSource::Base64(FileBytes { base64 })
}

/// The media type and the content of a `data:` URL with base64.
fn data_url(url: &str) -> Option<(String, FileSource)> {
    let (kind, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    Some((essence(kind), bytes(data)))
}

fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or(media_type).trim().to_ascii_lowercase()
}

fn typed_by_address(source: &FileSource) -> Option<&'static str> {
    if let FileSource::Url(source) = source { media_type_at(&source.url) } else { None }
}
