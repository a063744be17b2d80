//! Reads `postmaster.pid`, in which PostgreSQL says who it is and whether it is ready.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::if_exists;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PidFile {
    /// Line 1.
    pub(super) pid: u32,
    /// Line 5.
    pub(super) socket_dir: Option<PathBuf>,
    /// Line 8, which is written last.
    status: Option<String>,
}

impl PidFile {
    /// The file of a cluster; none while nobody runs it or the file is being written.
    pub(super) fn read(cluster: &Path) -> io::Result<Option<Self>> {
        let text = if_exists(fs::read_to_string(path(cluster)))?;
        Ok(text.as_deref().and_then(Self::parse))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines().map(str::trim);
        let pid = lines.next()?.parse().ok()?;
        let socket_dir = lines.nth(3).filter(|line| !line.is_empty()).map(PathBuf::from);
        let status = lines.nth(2).map(str::to_owned);
        Some(Self { pid, socket_dir, status })
    }

    pub(super) fn is_ready(&self) -> bool {
        self.status.as_deref() == Some("ready")
    }
}

pub(super) fn path(cluster: &Path) -> PathBuf {
    cluster.join("postmaster.pid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_line_by_line() {
        let full = "4711\n/d/postgres\n1796000000\n5432\n/tmp/s\n\n  5432001  65536\nready   \n";
        let file = PidFile::parse(full).unwrap();
        assert_eq!((file.pid, file.socket_dir.as_deref()), (4711, Some(Path::new("/tmp/s"))));
        assert!(file.is_ready());
        assert!(!PidFile::parse(&full.replace("ready", "starting")).unwrap().is_ready());
        assert!(!PidFile::parse("4711\n/d\n").unwrap().is_ready());
        assert_eq!(PidFile::parse(""), None);
    }
}
