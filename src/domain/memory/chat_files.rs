//! Files in OpenAI chat messages: writing.

use serde::Serialize;

use crate::domain::file::{FilePart, FileSource};

/// A file as a part of a message.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ChatFile<'a> {
    ImageUrl { image_url: Url },
    InputAudio { input_audio: Audio<'a> },
    File { file: Named<'a> },
    Text { text: String },
}

#[derive(Serialize)]
pub(super) struct Url {
    url: String,
}

#[derive(Serialize)]
pub(super) struct Audio<'a> {
    data: &'a str,
    format: &'a str,
}

#[derive(Serialize)]
pub(super) struct Named<'a> {
    filename: &'a str,
    file_data: String,
}

impl<'a> ChatFile<'a> {
    /// The part that says most of a file. Text stands in the message, and so does the address of a
    /// file that is no image: there is no part for either.
    pub(super) fn of(file: &'a FilePart) -> Self {
        let kind = file.media_type.as_str();
        match &file.source {
            FileSource::Text(source) => Self::Text { text: source.text.clone() },
            FileSource::Url(source) if kind.starts_with("image/") => {
                Self::ImageUrl { image_url: Url { url: source.url.clone() } }
            }
            FileSource::Url(source) => Self::Text { text: source.url.clone() },
            FileSource::Base64(source) => {
                let address = || format!("data:{kind};base64,{}", source.base64);
                match kind.split_once('/') {
                    Some(("image", _)) => Self::ImageUrl { image_url: Url { url: address() } },
                    Some(("audio", format)) => Self::InputAudio {
                        input_audio: Audio {
                            data: &source.base64,
                            format: if format == "mpeg" { "mp3" } else { format },
                        },
                    },
                    _ => Self::File { file: Named { filename: &file.id, file_data: address() } },
                }
            }
        }
    }
}
