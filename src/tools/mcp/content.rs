//! Results of calls as outputs: text, JSON and files.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

use crate::domain::file::{FileBytes, FilePart, FileSource, ending_of, is_media_type, is_textual};
use crate::domain::line::single_line;
use crate::tools::http::MAX_BODY;
use crate::tools::loss::Loss;
use crate::tools::mask::Mask;
use crate::tools::response::Output;

/// Reads a result of a tool, under the name that the model knows the tool by. The mask takes what the call
/// was sent with out of files; texts are masked with the outcome.
pub(super) fn read(tool: &str, result: &CallToolResult, mask: &Mask) -> Result<Output, Loss> {
    let size = serde_json::to_string(result).map_or(usize::MAX, |text| text.len());
    // Base64 makes a file a third longer than it is.
    if size > MAX_BODY / 3 * 4 {
        let text = "the tool's answer is larger than allowed".to_owned();
        return Err(Loss::Unread { type_name: "ResponseTooLarge", text });
    }
    let mut parts = Parts { texts: Vec::new(), files: Vec::new(), mask };
    for block in &result.content {
        parts.add(tool, block);
    }
    if result.is_error == Some(true) {
        let said = parts.texts.join("\n");
        let is_silent = said.is_empty();
        let text = if is_silent { "the tool says that it failed".to_owned() } else { said };
        return Err(Loss::Refused { type_name: "ToolError", text });
    }
    Ok(parts.into_output(result))
}

struct Parts<'m> {
    texts: Vec<String>,
    files: Vec<FilePart>,
    mask: &'m Mask,
}

impl Parts<'_> {
    fn add(&mut self, tool: &str, block: &ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.texts.push(text.text.clone()),
            ContentBlock::Image(image) => self.file(tool, &image.data, &image.mime_type),
            ContentBlock::Audio(audio) => self.file(tool, &audio.data, &audio.mime_type),
            ContentBlock::Resource(embedded) => match &embedded.resource {
                ResourceContents::TextResourceContents { text, .. } => {
                    self.texts.push(text.clone());
                }
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    let media_type = mime_type.as_deref().unwrap_or("application/octet-stream");
                    let name = uri.rsplit('/').next().unwrap_or_default();
                    self.named_file(single_line(name), blob, media_type, tool);
                }
                _ => self.texts.push("(a resource of an unknown kind)".to_owned()),
            },
            // An address is told, never fetched: the model may ask for it by a tool that may.
            ContentBlock::ResourceLink(link) => self.texts.push(format!(
                "Resource: {} ({})",
                single_line(&link.name),
                single_line(&link.uri)
            )),
            _ => self.texts.push("(content of an unknown kind)".to_owned()),
        }
    }

    fn file(&mut self, tool: &str, data: &str, media_type: &str) {
        self.named_file(String::new(), data, media_type, tool);
    }

    fn named_file(&mut self, name: String, data: &str, media_type: &str, tool: &str) {
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        let media_type = media_type.to_ascii_lowercase();
        let bytes = BASE64_STANDARD.decode(data.trim()).ok();
        let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty() && is_media_type(&media_type))
        else {
            self.texts.push("(a file that cannot be read)".to_owned());
            return;
        };
        if is_textual(&media_type) {
            self.texts.push(String::from_utf8_lossy(&bytes).into_owned());
            return;
        }
        let id = if name.is_empty() { self.name_for(tool, &media_type) } else { name };
        let bytes = self.mask.bytes(&bytes);
        let source = FileSource::Base64(FileBytes { base64: BASE64_STANDARD.encode(bytes) });
        let id = self.mask.text(&id).into_owned();
        let media_type = self.mask.text(&media_type).into_owned();
        self.files.push(FilePart { id, media_type, source });
    }

    /// What the model is told to call a file without a name.
    fn name_for(&self, tool: &str, media_type: &str) -> String {
        let ending = ending_of(media_type).unwrap_or("bin");
        match self.files.len() {
            0 => format!("{tool}.{ending}"),
            n => format!("{tool}-{}.{ending}", n + 1),
        }
    }

    fn into_output(self, result: &CallToolResult) -> Output {
        let Self { texts, files, .. } = self;
        // What is structured says all that its text does.
        let structured = result.structured_content.as_ref().filter(|value| !value.is_null());
        let said = match structured.and_then(|value| Output::json(&value.to_string())) {
            Some(output) => Some(output),
            None if texts.is_empty() && !files.is_empty() => None,
            None => Some(Output::text(&texts.join("\n"))),
        };
        Output::with_files(said, files)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::tool::ToolOutput;

    fn read_json(result: Value) -> Result<Output, Loss> {
        read("shot", &serde_json::from_value(result).unwrap(), &Mask::NONE)
    }

    fn text(output: &Output) -> &str {
        match &output.said {
            Some(ToolOutput::Text(text)) => &text.text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn texts_are_joined_and_what_cannot_be_stored_is_replaced() {
        let output = read_json(json!({"content": [
            {"type": "text", "text": "a\u{0}"}, {"type": "text", "text": "b"},
        ]}))
        .unwrap();
        assert_eq!((text(&output), output.sanitised), ("a\u{fffd}\nb", true));
    }

    #[test]
    fn structured_content_is_the_output_in_its_own_order() {
        let output = read_json(json!({
            "content": [{"type": "text", "text": "{}"}], "structuredContent": {"b": 1, "a": [2]},
        }))
        .unwrap();
        let Some(ToolOutput::Json(json)) = &output.said else { panic!("{output:?}") };
        assert_eq!(json.text(), r#"{"b":1,"a":[2]}"#);
    }

    #[test]
    fn images_and_blobs_are_files_and_links_are_only_told() {
        let output = read_json(json!({"content": [
            {"type": "image", "data": "AQID", "mimeType": "image/png"},
            {"type": "audio", "data": "AQID", "mimeType": "audio/wav"},
            {"type": "resource",
             "resource": {"uri": "file:///x/../y.pdf", "mimeType": "application/pdf", "blob": "AQID"}},
            {"type": "resource", "resource": {"uri": "a://b", "text": "inline"}},
            {"type": "resource_link", "uri": "http://169.254.169.254/", "name": "meta"},
            {"type": "image", "data": "%%", "mimeType": "image/png"},
        ]}))
        .unwrap();
        let files: Vec<_> =
            output.files.iter().map(|file| (file.id.as_str(), file.media_type.as_str())).collect();
        let expected =
            [("shot.png", "image/png"), ("shot-2.wav", "audio/wav"), ("y.pdf", "application/pdf")];
        assert_eq!(files, expected);
        let said = text(&output);
        assert_eq!(
            said,
            "inline\nResource: meta (http://169.254.169.254/)\n(a file that cannot be read)"
        );
    }

    #[test]
    fn a_result_that_says_it_is_an_error_is_a_failure_of_the_tool() {
        let failed =
            json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
        let refused = |text: &str| Loss::Refused { type_name: "ToolError", text: text.to_owned() };
        assert_eq!(read_json(failed).unwrap_err(), refused("no such file"));
        let silent = read_json(json!({"content": [], "isError": true})).unwrap_err();
        assert_eq!(silent, refused("the tool says that it failed"));
    }

    #[test]
    fn a_result_that_is_too_large_is_a_failure() {
        let large = json!({"content": [{"type": "text", "text": "x".repeat(MAX_BODY / 3 * 4)}]});
        let loss = read_json(large).unwrap_err();
        assert!(matches!(loss, Loss::Unread { type_name: "ResponseTooLarge", .. }), "{loss:?}");
    }
}
