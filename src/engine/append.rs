//! Appends what was decided to the journal of a run.

use std::time::Duration;

use tokio::sync::watch;

use super::leases::Signals;
use super::{CommitPoint, Context};
use crate::store::StoreError;
use crate::store::journal::{self, Appended, Batch, Guard};

/// How long a write waits before it is tried again while the database is away.
const WRITE_PAUSE: Duration = Duration::from_millis(250);

/// Appends a batch. While the database is away it is kept and tried again, for as long as the lease may
/// still be ours.
///
/// # Errors
/// When the store fails in a way that waiting does not mend.
pub(super) async fn append(
    context: &Context,
    signals: &watch::Receiver<Signals>,
    (guard, batch): (&Guard, &Batch),
) -> Result<Appended, StoreError> {
    let observer = &context.parts.observer;
    loop {
        observer.on_commit(CommitPoint::Before, guard.run);
        let appended = Box::pin(journal::append(context.store(), guard, batch));
        let appended = tokio::select! {
            appended = appended => appended,
            // Whoever has the run now sees what came of it.
            () = Signals::lost(signals) => return Ok(Appended::Fenced),
        };
        match appended {
            Ok(appended) => {
                observer.on_commit(CommitPoint::After, guard.run);
                return Ok(appended);
            }
            Err(error) if error.is_passing() => {
                tracing::warn!(run = %guard.run, error = %error, "a write waits for the database");
            }
            Err(error) => return Err(error),
        }
        if signals.borrow().lost {
            return Ok(Appended::Fenced);
        }
        tokio::time::sleep(WRITE_PAUSE).await;
    }
}
