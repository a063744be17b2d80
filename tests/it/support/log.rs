//! What a test's thread logs.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tracing::Level;
use tracing::subscriber::{DefaultGuard, set_default};

/// Everything that is logged on this thread.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Listens until the guard is dropped.
    pub(crate) fn listen(&self, level: Level) -> DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || log.clone());
        set_default(subscriber.with_max_level(level).with_ansi(false).finish())
    }

    /// What was logged so far.
    pub(crate) fn said(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
