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
    /// What counts is that it stays open.
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

impl Drop for DirLock {
    /// Closing the file is not enough: a process that is being started holds a copy of it for a moment,
    /// and with it the lock.
    fn drop(&mut self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(error = %error, "the lock of the data directory was not given back");
        }
    }
}

fn holder(mut file: &File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
