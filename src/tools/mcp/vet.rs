//! What of a server's list may be used: plain names, bounded descriptions, sound schemas.

use rmcp::model::Tool;
use serde_json::Value;

use crate::domain::line::{plain_text, single_line};
use crate::domain::mcp::{LeftOut, ListedTool, Listing, McpServerInfo};
use crate::tools::mask::Mask;
use crate::tools::schema::{Schema, Unnamed};
use crate::tools::shape::flaws;

/// Characters of a description that are told.
const MAX_DESCRIPTION: usize = 4_096;
/// Tools that are told to be left out.
const MAX_LEFT_OUT: usize = 128;

/// Judges every tool that a server lists.
pub(super) fn listing(tools: &[Tool]) -> Listing {
    let mut listing = Listing { info: McpServerInfo::default(), ..Listing::default() };
    for tool in tools {
        let known = |listed: &ListedTool| listed.name == tool.name;
        let judged: Result<(), (String, String)> = match listed(tool) {
            Ok(found) if listing.tools.iter().any(known) => {
                Err((found.name, "another tool of the server has this name".to_owned()))
            }
            Ok(found) => {
                listing.tools.push(found);
                continue;
            }
            Err(reason) => Err((single_line(&tool.name), reason)),
        };
        if let Err((name, reason)) = judged
            && listing.left_out.len() < MAX_LEFT_OUT
        {
            listing.left_out.push(LeftOut { name, reason });
        }
    }
    listing
}

fn listed(tool: &Tool) -> Result<ListedTool, String> {
    if !is_plain(&tool.name) {
        return Err("its name does not match ^[A-Za-z0-9_-]{1,64}$".to_owned());
    }
    let parameters = Value::Object((*tool.input_schema).clone());
    if parameters.get("type").and_then(Value::as_str) != Some("object") {
        return Err("its schema is not one of an object".to_owned());
    }
    if let Some(flaw) = flaws(&parameters).first() {
        return Err(format!("its schema cannot be used: {}", single_line(&flaw.message)));
    }
    if Schema::compile(&parameters, Unnamed::AsDeclared).is_err() {
        return Err("its schema is not a valid JSON Schema".to_owned());
    }
    let description = tool.description.as_deref().unwrap_or_default();
    let description = plain_text(description, MAX_DESCRIPTION);
    Ok(ListedTool { name: tool.name.to_string(), description, parameters })
}

/// Whether a name can be the name of a tool.
pub(super) fn is_plain(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// A list without the secrets that were sent to ask for it.
pub(super) fn masked(mut listing: Listing, mask: &Mask) -> Listing {
    if mask.is_none() {
        return listing;
    }
    for tool in &mut listing.tools {
        tool.description = mask.text(&tool.description).into_owned();
        tool.parameters = mask.json(&tool.parameters).into_owned();
    }
    for left in &mut listing.left_out {
        left.name = mask.text(&left.name).into_owned();
        left.reason = mask.text(&left.reason).into_owned();
    }
    let McpServerInfo { name, version, protocol_version } = listing.info;
    let own = |text: String| mask.text(&text).into_owned();
    let info = McpServerInfo { name: own(name), version: own(version), protocol_version };
    // A name that holds a secret is none that can be called.
    listing.tools.retain(|tool| mask.text(&tool.name) == tool.name);
    Listing { info, ..listing }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tools(listed: Value) -> Vec<Tool> {
        serde_json::from_value(listed).unwrap()
    }

    #[test]
    fn names_that_are_not_plain_are_left_out() {
        let object = json!({"type": "object"});
        let hostile =
            ["</system>", "a`b", "a\nb", "a b", "", "ünï", "a.b", "\u{202e}x", &"x".repeat(65)];
        for name in hostile {
            let found = listing(&tools(json!([{"name": name, "inputSchema": object}])));
            assert_eq!(found.tools, [], "{name}");
            assert_eq!(found.left_out.len(), 1, "{name}");
            assert!(!found.left_out[0].name.contains('\n'), "{name}");
        }
        let fine = listing(&tools(json!([{"name": "get-sum_2", "inputSchema": object}])));
        assert_eq!(fine.tools.len(), 1);
    }

    #[test]
    fn a_description_is_bounded_and_has_no_control_characters() {
        let long = format!("a\u{1b}[31m\u{202e}b\nc{}", "x".repeat(5_000));
        let found = listing(&tools(json!([
            {"name": "a", "description": long, "inputSchema": {"type": "object"}},
        ])));
        let told = &found.tools[0].description;
        assert!(told.starts_with("a\u{fffd}[31m\u{fffd}b\nc"), "{told:?}");
        assert_eq!(told.chars().count(), MAX_DESCRIPTION + 1);
    }

    #[test]
    fn schemas_that_reach_outside_or_are_no_objects_are_left_out() {
        for schema in [
            json!({"type": "object", "properties": {"a": {"$ref": "http://169.254.169.254/"}}}),
            json!({"type": "object", "$ref": "file:///etc/passwd"}),
            json!({"type": "array"}),
            json!({}),
            json!({"type": "object", "properties": {"a": {"type": "nonsense"}}}),
        ] {
            let found = listing(&tools(json!([{"name": "a", "inputSchema": schema}])));
            assert_eq!(found.tools, [], "{schema}");
        }
    }

    #[test]
    fn the_first_tool_of_a_name_stays() {
        let found = listing(&tools(json!([
            {"name": "a", "description": "1", "inputSchema": {"type": "object"}},
            {"name": "a", "description": "2", "inputSchema": {"type": "object"}},
        ])));
        assert_eq!(found.tools.len(), 1);
        assert_eq!((found.tools[0].description.as_str(), found.left_out.len()), ("1", 1));
    }
}
