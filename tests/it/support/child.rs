//! A second process: this test binary again, told by its environment what to do.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentling::app::{Running, Surroundings};
use agentling::engine::{CommitObserver, CommitPoint};
use agentling::store::{PoolSettings, Store};
use rustix::process::{Pid, Signal, getpid, kill_process};

use super::{DieAt, TellFenced, config_at};

const DATABASE: &str = "AGENTLING_TEST_DATABASE";
const TOOLS: &str = "AGENTLING_TEST_TOOLS";
const DEATH: &str = "AGENTLING_TEST_DEATH";
const PATIENCE: &str = "AGENTLING_TEST_PATIENCE";
const LISTENS: &str = "the child listens on ";

/// Leases that run out soon, for a database that a dead process has left.
const QUICK: [(&str, &str); 5] = [
    ("AGENTLING_LEASE_MS", "800"),
    ("AGENTLING_HEARTBEAT_MS", "100"),
    ("AGENTLING_SWEEP_MS", "50"),
    ("AGENTLING_POLL_MS", "50"),
    ("AGENTLING_WEBHOOK_TIMEOUT_MS", "2000"),
];

/// Leases that a child keeps on a busy machine until it dies, and that run out soon then.
const STEADY: [(&str, &str); 4] = [
    ("AGENTLING_LEASE_MS", "4000"),
    ("AGENTLING_HEARTBEAT_MS", "200"),
    ("AGENTLING_SWEEP_MS", "50"),
    ("AGENTLING_POLL_MS", "50"),
];

/// Leases that outlast a busy machine, for a child that nobody takes over from.
const PATIENT: [(&str, &str); 2] =
    [("AGENTLING_LEASE_MS", "30000"), ("AGENTLING_HEARTBEAT_MS", "5000")];

/// What a child is to do: serve and work on a database, until it dies.
#[derive(Debug)]
pub(crate) struct Errand {
    url: String,
    tools: String,
    death: Option<(CommitPoint, usize)>,
    settings: &'static [(&'static str, &'static str)],
}

impl Errand {
    /// The settings of children, which the server that takes over should have too.
    pub(crate) const SETTINGS: &'static [(&'static str, &'static str)] = &QUICK;

    /// The errand of this process; `None` in one that no test has started.
    pub(crate) fn of_this_process() -> Option<Self> {
        let death = variable(DEATH).unwrap_or_default();
        let death = match death.split_once(' ') {
            Some(("before", n)) => Some((CommitPoint::Before, n.parse().unwrap())),
            Some((_, n)) => Some((CommitPoint::After, n.parse().unwrap())),
            None => None,
        };
        let settings = match variable(PATIENCE).as_deref() {
            Some("long") => &PATIENT[..],
            Some(_) => &STEADY[..],
            None => Self::SETTINGS,
        };
        Some(Self { url: variable(DATABASE)?, tools: variable(TOOLS)?, death, settings })
    }

    /// Serves and works. It ends by its errand, by a signal, or with the test that started it.
    pub(crate) async fn run(self) {
        end_with_parent();
        let observer: Arc<dyn CommitObserver> = match self.death {
            Some((point, n)) => Arc::new(DieAt::new(point, n)),
            None => Arc::new(TellFenced),
        };
        let around = Surroundings { observer, ..Surroundings::default() };
        let pools = PoolSettings { api: 2, worker: 2, critical: 2 };
        let store = Store::open(&self.url, pools).unwrap();
        let config = config_at(&self.url, &self.tools, self.settings);
        let running = Running::start(&config, store, &around).await.unwrap();
        let line = format!("\n{LISTENS}{}\n", running.address);
        std::io::stdout().write_all(line.as_bytes()).unwrap();
        std::future::pending::<()>().await;
    }
}

#[expect(clippy::disallowed_methods, reason = "tests read the environment themselves")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A child must not outlive its test: the parent holds the other end of standard input.
fn end_with_parent() {
    std::thread::spawn(|| {
        drop(std::io::stdin().read_to_end(&mut Vec::new()));
        // Not an abort, which is how a child ends that dies at its commit.
        kill_process(getpid(), Signal::KILL).unwrap();
    });
}

/// A death as a child is told of it.
fn told(death: Option<(CommitPoint, usize)>) -> String {
    match death {
        Some((CommitPoint::Before, n)) => format!("before {n}"),
        Some((_, n)) => format!("after {n}"),
        None => String::new(),
    }
}

/// Counts what a child tells of its writes until it ends.
fn count_fenced(lines: impl Iterator<Item = String>, fenced: &AtomicUsize) {
    for _ in lines.filter(|line| line == TellFenced::LINE) {
        fenced.fetch_add(1, Ordering::Relaxed);
    }
}

/// A child process. It is killed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    fenced: Arc<AtomicUsize>,
}

impl Child {
    /// Starts a child that works on a database until it dies: at its n-th commit, or when told to.
    pub(crate) fn start(url: &str, tools: &str, death: Option<(CommitPoint, usize)>) -> Self {
        Self::spawn(url, tools, &[(DEATH, &told(death))])
    }

    /// The same, but it keeps what it holds on a busy machine, and so takes longer to be replaced.
    pub(crate) fn steady(url: &str, tools: &str, death: Option<(CommitPoint, usize)>) -> Self {
        Self::spawn(url, tools, &[(DEATH, &told(death)), (PATIENCE, "short")])
    }

    /// Starts a child that lives on and has long leases, so that it loses no run when it is busy.
    pub(crate) fn patient(url: &str, tools: &str) -> Self {
        Self::spawn(url, tools, &[(PATIENCE, "long")])
    }

    fn spawn(url: &str, tools: &str, variables: &[(&str, &str)]) -> Self {
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "engine::crash::child", "--nocapture"])
            .env(DATABASE, url)
            .env(TOOLS, tools)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { process, fenced: Arc::default() }
    }

    /// How many writes of it were fenced, as far as it has told, for whoever outlives it.
    pub(crate) fn fenced(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.fenced)
    }

    /// Where it listens, once it does.
    pub(crate) async fn address(&mut self) -> String {
        let stdout = self.process.stdout.take().expect("it is asked once");
        let fenced = self.fenced();
        let find = move || {
            let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
            let found = lines.find_map(|line| line.strip_prefix(LISTENS).map(str::to_owned));
            // A child that runs for a minute is told so by its test harness, which must not fail.
            std::thread::spawn(move || count_fenced(lines, &fenced));
            found
        };
        let found = tokio::task::spawn_blocking(find).await.unwrap();
        found.expect("the child serves")
    }

    /// Waits for its death.
    pub(crate) async fn died(mut self) -> ExitStatus {
        let pid = self.pid();
        // Waiting would close it, and with it end the child.
        let _stdin = self.process.stdin.take();
        let wait = tokio::task::spawn_blocking(move || self.process.wait().unwrap());
        let Ok(status) = tokio::time::timeout(Duration::from_mins(1), wait).await else {
            kill_process(pid, Signal::KILL).unwrap();
            panic!("the child lives on");
        };
        status.unwrap()
    }

    /// `kill -9`.
    pub(crate) async fn kill(self) {
        self.signal(Signal::KILL);
        self.died().await;
    }

    /// The most memory that it has had at once, in bytes; `None` where the system does not tell.
    pub(crate) fn peak_memory(&self) -> Option<u64> {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
