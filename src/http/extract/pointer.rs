//! JSON pointers (RFC 6901) that follow a walk.

/// Where a walk stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pointer(Vec<String>);

impl Pointer {
    /// Steps into a member.
    pub(crate) fn push_key(&mut self, key: &str) {
        self.0.push(key.replace('~', "~0").replace('/', "~1"));
    }

    /// Steps into an element.
    pub(crate) fn push_index(&mut self, index: usize) {
        self.0.push(index.to_string());
    }

    /// Steps out.
    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    /// Where a member of this place is.
    pub(crate) fn member(&self, key: &str) -> String {
        let mut child = self.clone();
        child.push_key(key);
        child.to_string()
    }
}

impl std::fmt::Display for Pointer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|segment| write!(f, "/{segment}"))
    }
}

/// The pointer of a path that a decoder has kept.
impl From<&serde_path_to_error::Path> for Pointer {
    fn from(path: &serde_path_to_error::Path) -> Self {
        use serde_path_to_error::Segment;
        let mut pointer = Self::default();
        for segment in path {
            match segment {
                Segment::Seq { index } => pointer.push_index(*index),
                Segment::Map { key } => pointer.push_key(key),
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        pointer
    }
}
