//! Messages of servers, read so that what is odd about one part of them costs that part alone.
//!
//! The types of the protocol's library refuse a whole message for one member that they do not know. What
//! they would stumble over is put otherwise before they see it.

use rmcp::model::{ContentBlock, ServerJsonRpcMessage, Tool};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::domain::line::single_line;

/// Characters of the type of a part that are told.
const MAX_TYPE: usize = 64;

/// Reads a message; `None` when it is none.
pub(super) fn read(text: &[u8]) -> Option<ServerJsonRpcMessage> {
    serde_json::from_value(mended(text)?).ok()
}

/// The same as text.
pub(super) fn text(text: &str) -> Option<String> {
    mended(text.as_bytes()).map(|message| message.to_string())
}

fn mended(text: &[u8]) -> Option<Value> {
    let mut message: Value = serde_json::from_slice(text).ok()?;
    if let Some(Value::Object(result)) = message.get_mut("result") {
        each(result, "content", mend_part);
        each(result, "tools", mend_tool);
        let is_whole = |value: &Value| value.is_boolean() || value.is_null();
        if let Some(said) = result.get_mut("isError").filter(|said| !is_whole(said)) {
            // Whoever says something here does not say that all is well.
            *said = Value::Bool(true);
        }
    }
    Some(message)
}

fn each(result: &mut Map<String, Value>, member: &str, mend: fn(&mut Value)) {
    if let Some(Value::Array(items)) = result.get_mut(member) {
        items.iter_mut().for_each(mend);
    }
}

/// Takes from a part what is only said about it, or puts a note in its place.
fn mend_part(part: &mut Value) {
    let is_read = |part: &Value| ContentBlock::deserialize(part).is_ok();
    if is_read(part) {
        return;
    }
    if let Value::Object(members) = part {
        for about in ["annotations", "_meta", "title", "description", "size", "icons"] {
            members.remove(about);
        }
    }
    if is_read(part) {
        return;
    }
    let note = match part.get("type").and_then(Value::as_str) {
        Some(name) => {
            let name: String = single_line(name).chars().take(MAX_TYPE).collect();
            format!("(a part of type '{name}' that cannot be shown)")
        }
        None => "(a part without a type that cannot be shown)".to_owned(),
    };
    *part = json!({"type": "text", "text": note});
}

/// Leaves of a tool what is used of it. Where that is not there either, the tool is one that is judged not
/// to be usable.
fn mend_tool(tool: &mut Value) {
    if Tool::deserialize(&*tool).is_ok() {
        return;
    }
    let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
    let description = tool.get("description").and_then(Value::as_str).unwrap_or_default();
    let schema = tool.get("inputSchema").filter(|schema| schema.is_object());
    let schema = schema.cloned().unwrap_or_else(|| json!({}));
    *tool = json!({"name": name, "description": description, "inputSchema": schema});
}

#[cfg(test)]
mod tests {
    use rmcp::model::{JsonRpcMessage, ServerResult};

    use super::*;

    fn result_of(result: &Value) -> ServerResult {
        let message = json!({"jsonrpc": "2.0", "id": 1, "result": result});
        let read = read(message.to_string().as_bytes()).unwrap();
        let JsonRpcMessage::Response(response) = read else { panic!("{read:?}") };
        response.result
    }

    #[test]
    fn a_part_that_is_odd_costs_itself_at_most() {
        let image = json!({"type": "image", "data": "AQID", "mimeType": "image/png"});
        let content = json!([
            {"type": "text", "text": "a"},
            {"type": "video", "url": "x"},
            {"type": "image", "data": "AQID"},
            {"type": "text", "text": "b", "annotations": {"priority": "high", "audience": ["dog"]}},
            {"type": "text", "text": "c", "annotations": {"priority": 5}},
            image,
            {"text": "d"},
            "e",
        ]);
        let ServerResult::CallToolResult(read) = result_of(&json!({"content": content})) else {
            panic!("no result")
        };
        let parts = serde_json::to_value(&read.content).unwrap();
        let said: Vec<&str> = parts
            .as_array()
            .unwrap()
            .iter()
            .map(|part| part["text"].as_str().unwrap_or("-"))
            .collect();
        let without = "(a part without a type that cannot be shown)";
        let expected = [
            "a",
            "(a part of type 'video' that cannot be shown)",
            "(a part of type 'image' that cannot be shown)",
            "b",
            "c",
            "-",
            without,
            without,
        ];
        assert_eq!(said, expected);
        assert_eq!(parts[5]["mimeType"], "image/png");
    }

    #[test]
    fn a_tool_that_is_odd_costs_itself_at_most() {
        let schema = json!({"type": "object"});
        let tools = json!([
            {"name": "a", "inputSchema": schema},
            {"name": "b"},
            {"name": "c", "inputSchema": schema, "annotations": "none", "description": "C"},
            {"name": 5, "inputSchema": schema},
            "e",
        ]);
        let ServerResult::ListToolsResult(list) = result_of(&json!({"tools": tools})) else {
            panic!("no list")
        };
        let read: Vec<_> =
            list.tools.iter().map(|tool| (&*tool.name, tool.input_schema.len())).collect();
        assert_eq!(read, [("a", 1), ("b", 0), ("c", 1), ("", 1), ("", 0)]);
        assert_eq!(list.tools[2].description.as_deref(), Some("C"));
    }

    #[test]
    fn a_result_that_says_anything_of_an_error_is_one_and_no_message_is_made_of_what_is_none() {
        for (said, is_error) in [(json!("yes"), Some(true)), (json!(false), Some(false))] {
            let result = result_of(&json!({"content": [], "isError": said}));
            let ServerResult::CallToolResult(read) = result else { panic!("no result") };
            assert_eq!(read.is_error, is_error);
        }
        assert!(read(b"{broken").is_none() && read(b"<html>").is_none());
    }
}
