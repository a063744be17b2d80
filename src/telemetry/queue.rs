//! Lines of the log on their way out. Whoever reads the log may stop reading; that holds up nobody who logs:
//! what finds no room is dropped and counted.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// The most lines that wait.
const QUEUE: usize = 4_096;
/// How long the last lines are waited for at the end.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long to wait before there may be room again.
const STEP: Duration = Duration::from_millis(10);

/// Lines that were dropped by this process.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// How many lines were dropped because nobody read them.
pub fn lines_dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

enum Item {
    Line(Vec<u8>),
    /// Somebody waits until what is before this is written.
    End(SyncSender<()>),
}

/// Takes lines, as long as there is room.
#[derive(Debug, Clone)]
pub(super) struct Queue(SyncSender<Item>);

impl Queue {
    /// Lines go to this from now on, on a thread of its own.
    ///
    /// # Errors
    /// When there can be no more threads.
    pub(super) fn to(out: impl io::Write + Send + 'static) -> io::Result<Self> {
        let (queue, items) = sync_channel(QUEUE);
        drop(thread::Builder::new().name("log".to_owned()).spawn(move || write(&items, out))?);
        Ok(Self(queue))
    }
}

fn write(items: &Receiver<Item>, mut out: impl io::Write) {
    while let Ok(item) = items.recv() {
        // Where nobody is left to read, there is nobody to be told either.
        match item {
            Item::Line(line) => drop(out.write_all(&line)),
            Item::End(done) => drop(done.try_send(())),
        }
    }
}

impl io::Write for Queue {
    /// One line is one write.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.try_send(Item::Line(bytes.to_vec())).is_err() {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Queue {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// The log of a process, whose last lines are to get out.
#[derive(Debug)]
pub struct LogEnd(pub(super) Queue);

impl LogEnd {
    /// Waits until everything that was logged is out, unless nobody takes it.
    pub fn wait(self) {
        let (done, told) = sync_channel(1);
        for _ in 0..FAREWELL.as_millis() / STEP.as_millis() {
            if self.0.0.try_send(Item::End(done.clone())).is_ok() {
                // That nobody takes the lines in time is no reason to wait for longer.
                told.recv_timeout(FAREWELL).ok();
                return;
            }
            thread::sleep(STEP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::sync::mpsc::Sender;

    /// Somebody who takes a line whenever a test lets them.
    struct Slow(Receiver<()>, Sender<Vec<u8>>);

    impl io::Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Once the test is over, all is taken.
            self.0.recv().ok();
            drop(self.1.send(bytes.to_vec()));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_holds_nobody_up_and_what_is_dropped_is_counted() {
        let (go, may_go) = std::sync::mpsc::channel();
        let (out, written) = std::sync::mpsc::channel();
        let mut queue = Queue::to(Slow(may_go, out)).unwrap();
        let before = lines_dropped();
        for n in 0..QUEUE + 10 {
            queue.write_all(n.to_string().as_bytes()).unwrap();
        }
        // One may be in the reader's hands already.
        assert!((9..=10).contains(&(lines_dropped() - before)));
        drop(go);
        LogEnd(queue).wait();
        let written: Vec<_> = written.try_iter().collect();
        assert_eq!(written[..3], [b"0".to_vec(), b"1".to_vec(), b"2".to_vec()]);
        assert!(written.len() >= QUEUE);
    }
}
