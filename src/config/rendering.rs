//! How histories are framed.

use super::Setting;
use super::reader::Reader;
use crate::domain::tag::TagName;

pub(super) const FRAMING_TAGS: Setting = Setting::plain(
    "AGENTLING_FRAMING_TAGS",
    "names of further data tags that no text of others may open or close in threads created from now on, separated by commas",
)
.or("");

/// What the operator decides about rendering.
#[derive(Debug, Clone, Default)]
pub struct Rendering {
    /// Data tags beside the built-in ones, sorted, each once. A thread keeps those of its creation.
    pub framing_tags: Vec<String>,
}

impl Rendering {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let name = |text: &str| {
            let name: Result<TagName, _> = text.parse();
            name.map_err(|error| format!("must list names of data tags, and {text:?} is {error}"))
        };
        let mut tags = reader.list(FRAMING_TAGS, name)?;
        tags.sort_unstable();
        tags.dedup();
        Some(Self { framing_tags: tags.iter().map(TagName::to_string).collect() })
    }
}
