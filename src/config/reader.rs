//! Reads settings one by one and collects what is wrong with them.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use super::{ConfigError, Setting, Source};

/// The prefix under which every unknown name is a mistake.
const PREFIX: &str = "AGENTLING_";

/// Names under our prefix that are not settings of the server: the test suite reads them.
const NOT_OURS: &[&str] = &["AGENTLING_SHARED", "AGENTLING_TEST_NOTIFY"];

/// The shortest credential an operator may choose.
const SECRET_LEN_MIN: usize = 16;

/// A pass over the settings. A method that finds a mistake records it and yields `None`.
pub(super) struct Reader<'a> {
    pub(super) source: &'a Source,
    errors: Vec<ConfigError>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(source: &'a Source) -> Self {
        Self { source, errors: Vec::new() }
    }

    /// The value, provided that nothing went wrong on the way.
    pub(super) fn finish<T>(self, value: Option<T>) -> Result<T, Vec<ConfigError>> {
        value.filter(|_| self.errors.is_empty()).ok_or(self.errors)
    }

    pub(super) fn refuse_unknown(&mut self, known: &[Setting]) {
        let is_known = |name: &str| {
            NOT_OURS.contains(&name) || known.iter().any(|setting| setting.name == name)
        };
        let unknown = self.source.names().filter(|name| name.starts_with(PREFIX));
        let unknown = unknown.filter(|name| !is_known(name));
        self.errors.extend(unknown.map(|name| ConfigError::Unknown { name: name.into_owned() }));
    }

    pub(super) fn refuse(&mut self, setting: Setting, problem: impl Into<String>) {
        self.errors.push(ConfigError::Invalid { name: setting.name, problem: problem.into() });
    }

    /// A setting that may be absent. `None` after a mistake too: then `finish` fails anyway.
    pub(super) fn optional<T>(
        &mut self,
        setting: Setting,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(setting)?;
        self.parsed(setting, parse(text))
    }

    /// A setting with a default, which is read like any other value.
    pub(super) fn required<T>(
        &mut self,
        setting: Setting,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(setting).or(setting.default).unwrap_or_default();
        self.parsed(setting, parse(text))
    }

    fn text(&mut self, setting: Setting) -> Option<&'a str> {
        let raw = self.source.get(setting.name)?;
        let text = raw.to_str();
        if text.is_none() {
            self.errors.push(ConfigError::NotText { name: setting.name });
        }
        text
    }

    fn parsed<T>(&mut self, setting: Setting, result: Result<T, String>) -> Option<T> {
        result.map_err(|problem| self.refuse(setting, problem)).ok()
    }

    pub(super) fn number(&mut self, setting: Setting, bounds: (u32, u32)) -> Option<u32> {
        let (least, most) = bounds;
        self.required(setting, |text| {
            let number = text.parse().ok().filter(|number| (least..=most).contains(number));
            number.ok_or_else(|| format!("must be a number from {least} to {most}, not {text:?}"))
        })
    }

    pub(super) fn millis(&mut self, setting: Setting, bounds: (u32, u32)) -> Option<Duration> {
        self.number(setting, bounds).map(|number| Duration::from_millis(number.into()))
    }

    pub(super) fn secs(&mut self, setting: Setting, bounds: (u32, u32)) -> Option<Duration> {
        self.number(setting, bounds).map(|number| Duration::from_secs(number.into()))
    }

    /// A comma-separated list.
    pub(super) fn list<T>(
        &mut self,
        setting: Setting,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        self.required(setting, |text| {
            text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(&parse).collect()
        })
    }

    pub(super) fn flag(&mut self, setting: Setting) -> Option<bool> {
        self.required(setting, |text| {
            text.parse().map_err(|_| format!("must be true or false, not {text:?}"))
        })
    }

    /// A credential that the operator chose.
    pub(super) fn credential(&mut self, setting: Setting) -> Option<SecretString> {
        self.optional(setting, |text| {
            if text.len() < SECRET_LEN_MIN || !is_visible(text) {
                return Err(format!("must be at least {SECRET_LEN_MIN} {VISIBLE}"));
            }
            Ok(text.into())
        })
    }

    /// A credential that somebody else chose, fit for a header.
    pub(super) fn foreign_credential(&mut self, setting: Setting) -> Option<SecretString> {
        self.optional(setting, |text| {
            is_visible(text).then(|| text.into()).ok_or_else(|| format!("must be {VISIBLE}"))
        })
    }

    /// A path, which need not be UTF-8 but must be absolute: a server has no fixed directory.
    pub(super) fn path(&mut self, setting: Setting) -> Option<PathBuf> {
        let path = PathBuf::from(self.source.get(setting.name)?);
        if path.is_relative() {
            self.refuse(setting, format!("must be an absolute path, not {}", path.display()));
            return None;
        }
        Some(path)
    }
}

/// What a credential consists of.
const VISIBLE: &str = "visible ASCII characters without spaces";

fn is_visible(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}
