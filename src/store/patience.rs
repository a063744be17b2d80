//! How long the database is waited for, and what is done with a write that it gave up or whose answer
//! was lost.

use std::time::Duration;

use super::{Conflict, StoreError};
use crate::clock::{Ids as _, System};

/// How often a transaction is tried that the database gives up for the sake of another one.
const TRIES: u32 = 5;

/// How long a caller waits until it is known what became of a write.
const DOUBT: Duration = Duration::from_secs(5);

/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Waits for an answer, but not for ever: a connection that fell silent never says that it is lost.
/// What was asked may still happen.
pub(super) async fn in_time<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let silence = || Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()));
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| silence())
}

/// Does a transaction again that the database gave up for the sake of another one.
pub(super) async fn again<T, F>(mut transaction: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    for n_before in 1..TRIES {
        match transaction().await {
            Err(error) if error.is_collision() => pause(n_before).await,
            done => return done,
        }
    }
    transaction().await
}

/// What is known of a write in the end.
#[derive(Debug)]
pub(super) struct Settled<T> {
    /// What the last try answered.
    pub(super) answer: Result<T, StoreError>,
    /// Whether there was one before whose outcome is unknown: the answer may be to that one.
    pub(super) is_repeated: bool,
}

/// Does a transaction until its outcome is known. Each try takes the locks of the one before, and so
/// waits until that one has either happened or never will; it is told whether there was one.
pub(super) async fn settled<T, F>(mut transaction: impl FnMut(bool) -> F) -> Settled<T>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let first = again(|| transaction(false)).await;
    let Err(StoreError::OutcomeUnknown(lost)) = first else {
        return Settled { answer: first, is_repeated: false };
    };
    let known = async {
        let mut n_before = 1;
        loop {
            let answer = again(|| transaction(true)).await;
            if !is_open(&answer) {
                return answer;
            }
            pause(n_before).await;
            n_before += 1;
        }
    };
    let answer = tokio::time::timeout(DOUBT, known).await;
    let answer = answer.unwrap_or(Err(StoreError::OutcomeUnknown(lost)));
    Settled { answer, is_repeated: true }
}

/// Whether an answer says nothing of the try before it.
const fn is_open<T>(answer: &Result<T, StoreError>) -> bool {
    match answer {
        Ok(_) => false,
        // The key is held by the try before, as far as anyone knows.
        Err(StoreError::Conflict(Conflict::IdempotencyInProgress)) => true,
        Err(error) => error.is_passing(),
    }
}

/// Pauses longer after each try, and never as long as somebody else who began at the same time.
pub(super) async fn pause(n_before: u32) {
    let (random, _) = System::new().random().as_u64_pair();
    let spread = Duration::from_millis((random >> 56) % 16);
    let grown = Duration::from_millis(4) * 2_u32.saturating_pow(n_before.min(8));
    tokio::time::sleep(grown.min(LONGEST_PAUSE) + spread).await;
}
