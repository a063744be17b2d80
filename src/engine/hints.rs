//! Hints to and from the other servers on the database: where to look. Losing all of them costs time
//! up to the next poll, and nothing else.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use uuid::Uuid;

use super::{Context, worker};
use crate::domain::id::RunId;
use crate::store::hints::{Listener, notify};

/// How long hints are collected before they are sent: what is bounded is how many transactions notify.
const BATCH: Duration = Duration::from_millis(20);

/// How often a silent connection is asked whether it still is one.
const PING: Duration = Duration::from_secs(10);

/// How long to wait before listening again.
const PAUSE: Duration = Duration::from_secs(1);

/// How many runs a payload names: it must be shorter than 8,000 bytes.
const RUNS_PER_PAYLOAD: usize = 200;

/// The word for "a run became claimable"; every other word of a payload is a run that changed.
const CLAIMABLE: &str = "claimable";

/// What is to be told to other servers.
#[derive(Debug)]
pub(crate) struct Hints {
    /// Marks what comes from here: a server need not hear itself.
    sender: String,
    is_on: bool,
    waiting: Mutex<Waiting>,
    ready: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    claimable: bool,
    runs: BTreeSet<Uuid>,
}

impl Hints {
    pub(super) fn new(id: Uuid, is_on: bool) -> Self {
        let (sender, waiting) = (id.simple().to_string(), Mutex::default());
        Self { sender, is_on, waiting, ready: Notify::new() }
    }

    /// A run became claimable.
    pub(super) fn claimable(&self) {
        self.add(|waiting| waiting.claimable = true);
    }

    /// A run has new events, or a caller wants something of it.
    pub(super) fn changed(&self, run: RunId) {
        self.add(|waiting| {
            waiting.runs.insert(run.uuid());
        });
    }

    fn add(&self, hint: impl FnOnce(&mut Waiting)) {
        if self.is_on {
            hint(&mut self.lock());
            self.ready.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What waits, as payloads.
    fn take(&self) -> Vec<String> {
        let Waiting { claimable, runs } = std::mem::take(&mut *self.lock());
        let runs: Vec<String> = runs.iter().map(|run| run.simple().to_string()).collect();
        let claimable = claimable.then(|| CLAIMABLE.to_owned());
        let words: Vec<String> = claimable.into_iter().chain(runs).collect();
        let payload = |words: &[String]| format!("{} {}", self.sender, words.join(" "));
        words.chunks(RUNS_PER_PAYLOAD).map(payload).collect()
    }

    /// The words of a payload, unless it comes from here.
    fn heard<'a>(&self, payload: &'a str) -> impl Iterator<Item = &'a str> {
        let (sender, words) = payload.split_once(' ').unwrap_or_default();
        let is_foreign = sender != self.sender;
        words.split(' ').filter(move |word| is_foreign && !word.is_empty())
    }
}

pub(super) fn start(context: &Arc<Context>) {
    if context.hints.is_on {
        context.tasks.spawn(send_loop(Arc::clone(context)));
        context.tasks.spawn(listen_loop(Arc::clone(context)));
    }
}

/// Sends what waits, all of it in as few transactions as it fits into. What cannot be sent is lost.
async fn send(context: &Context) {
    for payload in context.hints.take() {
        if let Err(error) = notify(context.store(), &payload).await {
            tracing::debug!(%error, "a hint was not sent");
        }
    }
}

async fn send_loop(context: Arc<Context>) {
    loop {
        tokio::select! {
            () = context.hints.ready.notified() => tokio::time::sleep(BATCH).await,
            // Others are told of what was given back.
            () = worker::drained(&context) => return send(&context).await,
        }
        send(&context).await;
    }
}

async fn listen_loop(context: Arc<Context>) {
    while !context.tasks.is_stopping() {
        hear(&context).await;
        let pause = PAUSE.mul_f64(0.5 + context.jitter());
        tokio::select! {
            () = context.tasks.stopping() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn hear(context: &Context) {
    match Listener::connect(context.store()).await {
        Ok(listener) => {
            catch_up(context);
            listen(context, listener).await;
        }
        Err(error) => tracing::warn!(%error, "hints of other servers cannot be heard"),
    }
}

/// Acts on what is heard until the connection is lost or the server stops.
async fn listen(context: &Context, mut listener: Listener) {
    loop {
        tokio::select! {
            () = context.tasks.stopping() => return,
            payload = listener.next() => {
                let Some(payload) = payload else { break };
                context.hints.heard(&payload).for_each(|word| act(context, word));
            }
            () = tokio::time::sleep(PING) => {
                if !listener.is_alive().await {
                    break;
                }
            }
        }
    }
    tracing::warn!("the connection that hears hints was lost");
}

fn act(context: &Context, word: &str) {
    if word == CLAIMABLE {
        return context.wake.notify_one();
    }
    let Ok(run) = word.parse::<Uuid>().map(RunId::from) else { return };
    if context.leases.holds(run) {
        // The heartbeat tells what is wanted of it.
        context.beat.notify_one();
    }
    context.feed.look(Some(run));
}

/// Looks everywhere: nobody knows what was said while no one listened.
fn catch_up(context: &Context) {
    context.wake.notify_one();
    context.beat.notify_one();
    context.feed.look(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(n: u128) -> Hints {
        Hints::new(Uuid::from_u128(n), true)
    }

    #[test]
    fn hints_of_a_moment_are_one_payload_that_others_read_and_the_sender_does_not() {
        let (here, there) = (hints(1), hints(2));
        for n in [7, 8, 7] {
            here.changed(RunId::from(Uuid::from_u128(n)));
        }
        here.claimable();
        let payloads = here.take();
        assert_eq!(payloads.len(), 1);
        let words = [
            CLAIMABLE.to_owned(),
            Uuid::from_u128(7).simple().to_string(),
            Uuid::from_u128(8).simple().to_string(),
        ];
        assert_eq!(there.heard(&payloads[0]).collect::<Vec<_>>(), words);
        assert_eq!(here.heard(&payloads[0]).count(), 0);
        assert!(here.take().is_empty());
    }

    #[test]
    fn many_hints_are_several_payloads_each_short_enough_for_the_database() {
        let here = hints(u128::MAX);
        for n in 0..1_000 {
            here.changed(RunId::from(Uuid::from_u128(n)));
        }
        let payloads = here.take();
        assert_eq!(payloads.len(), 5);
        assert!(payloads.iter().all(|payload| payload.len() < 8_000));
        let heard: usize = payloads.iter().map(|payload| hints(1).heard(payload).count()).sum();
        assert_eq!(heard, 1_000);
    }

    #[test]
    fn a_server_that_sends_no_hints_collects_none_and_reads_nonsense_as_nothing() {
        let silent = Hints::new(Uuid::nil(), false);
        silent.claimable();
        assert!(silent.take().is_empty());
        assert_eq!(hints(1).heard("nonsense").count(), 0);
    }
}
