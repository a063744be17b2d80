//! One server per data directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::EmbeddedError;
use super::error::During;

/// The right to use a data directory. The kernel takes it back when the process ends.
#[derive(Debug)]
pub(super) struct DirLock {
    /// Never read: what counts is that it stays open.
    #[cfg_attr(not(test), expect(dead_code, reason = "an open file is what holds the lock"))]
    pub(super) file: File,
}

impl DirLock {
    pub(super) fn acquire(data_dir: &Path) -> Result<Self, EmbeddedError> {
        let path = data_dir.join("agentling.lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o644);
        let mut file = options.open(&path).during("open", &path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(EmbeddedError::InUse { dir: data_dir.to_owned(), pid: holder(&file) });
            }
            Err(TryLockError::Error(error)) => return Err(error).during("lock", &path),
        }
        // The pid is for people: it tells which server to stop.
        file.set_len(0).during("empty", &path)?;
        writeln!(file, "{}", std::process::id()).during("write", &path)?;
        Ok(Self { file })
    }
}

fn holder(mut file: &File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
