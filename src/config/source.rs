//! Where settings come from: the process environment, or a map in tests.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The raw settings. This is the one reader of the environment.
///
/// Only what [`super::Config`] looks at is kept, and `Debug` shows names alone: the environment
/// holds other people's secrets as well as ours.
#[derive(Clone, Default)]
pub struct Source {
    variables: BTreeMap<OsString, OsString>,
    is_root: bool,
}

impl Source {
    /// The environment and the user of this process.
    pub fn process() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
            is_root: rustix::process::geteuid().is_root(),
        }
    }

    /// Settings given as pairs, for an ordinary user.
    pub fn of<K: Into<OsString>, V: Into<OsString>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let variables =
            pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { variables, is_root: false }
    }

    /// The same settings as read by the superuser.
    #[must_use]
    pub fn as_root(self) -> Self {
        Self { is_root: true, ..self }
    }

    pub(super) fn is_root(&self) -> bool {
        self.is_root
    }

    /// The value of a variable; an empty one counts as absent, since compose files cannot unset.
    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|text| !text.is_empty())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
        self.variables.keys().map(|name| name.to_string_lossy())
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.variables.keys()).finish()
    }
}
