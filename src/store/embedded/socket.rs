//! The directory of the Unix socket: short, private, and fresh at each start.
//!
//! It is not in the data directory, since the path of a socket has room for some hundred bytes only.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::EmbeddedError;
use super::account::Account;
use super::error::{During, if_exists};
use crate::clock::{Ids, System};

/// The number in the socket's name; nothing listens on a network.
pub(super) const PORT: u16 = 5432;

const PARENT: &str = "/tmp";
const PREFIX: &str = "agentling-";

/// A directory that only the user of PostgreSQL can enter.
#[derive(Debug)]
pub(super) struct SocketDir {
    path: PathBuf,
    record: PathBuf,
}

impl SocketDir {
    /// Makes the directory. One that exists is never used, whoever made it.
    pub(super) fn make(data_dir: &Path, account: Account) -> Result<Self, EmbeddedError> {
        let path = Path::new(PARENT).join(format!("{PREFIX}{}", System::new().random().simple()));
        let record = record(data_dir);
        // Recorded first: after a crash in between, the next start still finds it.
        fs::write(&record, path.as_os_str().as_encoded_bytes()).during("write", &record)?;
        DirBuilder::new().mode(0o700).create(&path).during("make", &path)?;
        let made = Self { path, record };
        account.own(&made.path)?;
        Ok(made)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn remove(&self) -> Result<(), EmbeddedError> {
        remove(&self.path, &self.record)
    }
}

/// Removes what an earlier server left behind when it could not clean up.
pub(super) fn remove_recorded(data_dir: &Path) -> Result<(), EmbeddedError> {
    let record = record(data_dir);
    let text = if_exists(fs::read_to_string(&record)).during("read", &record)?;
    let path = text.map(PathBuf::from).filter(|path| is_ours(path));
    path.map_or(Ok(()), |path| remove(&path, &record))
}

/// Whether a path can be one of those that [`SocketDir::make`] makes.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let suffix = name.and_then(|name| name.strip_prefix(PREFIX));
    let is_random =
        suffix.is_some_and(|suffix| suffix.bytes().all(|byte| byte.is_ascii_hexdigit()));
    path.parent() == Some(Path::new(PARENT)) && is_random
}

fn remove(path: &Path, record: &Path) -> Result<(), EmbeddedError> {
    if_exists(fs::remove_dir_all(path)).during("remove", path)?;
    if_exists(fs::remove_file(record)).during("remove", record)?;
    Ok(())
}

fn record(data_dir: &Path) -> PathBuf {
    data_dir.join("socket")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_of_our_making_is_ever_removed() {
        assert!(is_ours(Path::new("/tmp/agentling-0123456789abcdef")));
        for path in ["/tmp", "/tmp/agentling-../x", "/home/agentling-01", "/tmp/agentling-xyz", "/"]
        {
            assert!(!is_ours(Path::new(path)), "{path}");
        }
    }
}
