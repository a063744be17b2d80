//! The user that PostgreSQL runs as: ourselves, or an unprivileged one when we are root.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;

use super::EmbeddedError;
use super::error::{During, if_exists};

/// A user and a group to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Account {
    /// Absent when we need not become anybody.
    switch: Option<(u32, u32)>,
}

/// Who is asked for, in this order.
const NAMES: &[&str] = &["postgres", "nobody"];

impl Account {
    /// Whoever owns the cluster, since PostgreSQL insists on that; else the usual users.
    pub(super) fn for_cluster(cluster: &Path) -> Result<Self, EmbeddedError> {
        let existing = if_exists(fs::symlink_metadata(cluster)).during("look at", cluster)?;
        let owner = existing.map(|data| (data.uid(), data.gid()));
        let us = geteuid();
        match owner {
            Some((uid, _)) if uid == us.as_raw() && !us.is_root() => Ok(Self { switch: None }),
            Some((uid, gid)) if us.is_root() && uid != 0 => Ok(Self { switch: Some((uid, gid)) }),
            Some((owner, _)) => {
                Err(EmbeddedError::ForeignCluster { cluster: cluster.to_owned(), owner })
            }
            None if us.is_root() => Self::unprivileged(),
            None => Ok(Self { switch: None }),
        }
    }

    fn unprivileged() -> Result<Self, EmbeddedError> {
        let file = Path::new("/etc/passwd");
        let users = fs::read_to_string(file).during("read", file)?;
        let ids = NAMES.iter().find_map(|name| ids_of(&users, name));
        ids.map(|ids| Self { switch: Some(ids) }).ok_or(EmbeddedError::NoAccount)
    }

    /// A command of this user, in a place that everybody may enter.
    ///
    /// It gets none of our environment, which holds keys.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("LC_ALL", LOCALE).env("PATH", "/usr/bin:/bin").current_dir("/");
        if let Some((uid, gid)) = self.switch {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Hands over a path that we have just made.
    pub(super) fn own(&self, path: &Path) -> Result<(), EmbeddedError> {
        let Some((uid, gid)) = self.switch else { return Ok(()) };
        chown(path, Some(uid), Some(gid)).during("hand over", path)
    }

    /// Makes sure that the user can pass through a directory and all above it.
    pub(super) fn check_reach(&self, dir: &Path) -> Result<(), EmbeddedError> {
        let Some((uid, _)) = self.switch else { return Ok(()) };
        let mut way: Vec<&Path> = dir.ancestors().collect();
        way.reverse();
        let script = r#"for dir do cd "$dir" 2>/dev/null || { echo "$dir"; exit 1; }; done"#;
        let shell = Path::new(SHELL);
        let output = self.command(shell).args(["-c", script, "sh"]).args(way).output();
        let output = output.during("run", shell)?;
        if output.status.success() {
            return Ok(());
        }
        let closed = String::from_utf8_lossy(&output.stdout);
        Err(EmbeddedError::Unreachable { dir: PathBuf::from(closed.trim_end()), uid })
    }
}

/// The shell that every system of ours has.
pub(super) const SHELL: &str = "/bin/sh";

/// The locale of the cluster: byte order for sorting, UTF-8 for letters.
pub(super) const LOCALE: &str = if cfg!(target_os = "macos") { "C" } else { "C.UTF-8" };

/// The uid and gid of a user in the format of `/etc/passwd`.
fn ids_of(users: &str, name: &str) -> Option<(u32, u32)> {
    let mut lines = users.lines().map(|line| line.split(':'));
    let mut fields = lines.find_map(|mut fields| (fields.next()? == name).then_some(fields))?;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some((uid, gid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_name_alone() {
        let users = "root:x:0:0:root:/root:/bin/sh\npostgres2:x:9:9::/:/x\npostgres:x:101:104:PostgreSQL:/:/x\nbad\n";
        assert_eq!(ids_of(users, "postgres"), Some((101, 104)));
        assert_eq!(ids_of(users, "nobody"), None);
        assert_eq!(ids_of(users, "bad"), None);
    }
}
