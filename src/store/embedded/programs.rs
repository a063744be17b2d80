//! Finds the PostgreSQL programs on Debian, Fedora, Alpine, macOS and where the operator says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{EmbeddedError, EmbeddedSettings};

/// A directory with `postgres` and `initdb`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Programs {
    dir: PathBuf,
}

/// Directories whose children, named or suffixed by a version, hold a set of programs each.
///
/// The fields: the parent, the prefix of a child's name, and what follows below the child.
const VERSIONED: &[(&str, &str, &str)] = &[
    ("/usr/lib/postgresql", "", "bin"),          // Debian, Ubuntu
    ("/usr", "pgsql-", "bin"),                   // PGDG on Fedora and RHEL
    ("/usr/libexec", "postgresql", ""),          // Alpine
    ("/opt/homebrew/opt", "postgresql@", "bin"), // Homebrew on Apple silicon
    ("/usr/local/opt", "postgresql@", "bin"),    // Homebrew on Intel
    ("/Applications/Postgres.app/Contents/Versions", "", "bin"),
];

/// Directories that hold at most one set.
const PLAIN: &[&str] = &["/usr/bin", "/usr/local/bin", "/usr/local/pgsql/bin", "/opt/homebrew/bin"];

/// Every set of programs, the preferred one first.
pub(super) fn find(settings: &EmbeddedSettings) -> Result<Vec<Programs>, EmbeddedError> {
    if let Some(dir) = &settings.pg_bin {
        let found = Programs::within(dir);
        return found.map(|it| vec![it]).ok_or_else(|| EmbeddedError::NotPrograms(dir.clone()));
    }
    let on_path = settings.program_path.iter().filter_map(|dir| Programs::reached_from(dir));
    let versioned = VERSIONED.iter().flat_map(|place| versions_of(*place));
    let plain = PLAIN.iter().map(PathBuf::from);
    let usual = versioned.chain(plain).filter_map(|dir| Programs::within(&dir));
    let mut all: Vec<Programs> = Vec::new();
    for programs in on_path.chain(usual) {
        if !all.contains(&programs) {
            all.push(programs);
        }
    }
    if all.is_empty() { Err(EmbeddedError::NoPrograms) } else { Ok(all) }
}

impl Programs {
    fn within(dir: &Path) -> Option<Self> {
        let is_complete = dir.join("postgres").is_file() && dir.join("initdb").is_file();
        is_complete.then(|| Self { dir: dir.to_owned() })
    }

    /// The programs behind a directory of PATH, where `postgres` may be a link to the real place.
    fn reached_from(dir: &Path) -> Option<Self> {
        let real = fs::canonicalize(dir.join("postgres")).ok();
        real.as_deref().and_then(Path::parent).and_then(Self::within).or_else(|| Self::within(dir))
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.dir.join("postgres")
    }

    pub(super) fn initdb(&self) -> PathBuf {
        self.dir.join("initdb")
    }

    /// The major version, as `PG_VERSION` spells it.
    pub(super) fn version(&self) -> Result<String, EmbeddedError> {
        let program = self.postgres();
        let output = Command::new(&program).arg("--version").env_clear().current_dir("/").output();
        let output = output.map_err(|error| failed(&program, error.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        major(&text).ok_or_else(|| failed(&program, format!("`--version` says {text:?}")))
    }
}

fn failed(program: &Path, detail: String) -> EmbeddedError {
    EmbeddedError::Program { program: program.to_owned(), detail }
}

/// `15` of `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn major(text: &str) -> Option<String> {
    let is_version = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    let version = text.split_whitespace().find(is_version)?;
    Some(version.chars().take_while(char::is_ascii_digit).collect())
}

/// The version directories of a place, newest first.
fn versions_of((parent, prefix, below): (&str, &str, &str)) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let version = name.to_str()?.strip_prefix(prefix)?.parse().ok()?;
            Some((version, entry.path().join(below)))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, dir)| dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_what_the_program_says() {
        for (text, expected) in [
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", Some("15")),
            ("postgres (PostgreSQL) 19beta1", Some("19")),
            ("postgres (PostgreSQL)", None),
        ] {
            assert_eq!(major(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn the_newest_version_is_preferred_by_number() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["pg-9", "pg-15", "pg-17", "pg-x", "other"] {
            fs::create_dir(parent.path().join(name)).unwrap();
        }
        let place = (parent.path().to_str().unwrap(), "pg-", "bin");
        let expected = ["pg-17/bin", "pg-15/bin", "pg-9/bin"].map(|name| parent.path().join(name));
        assert_eq!(versions_of(place).collect::<Vec<_>>(), expected);
    }
}
