//! Requests that came before under the same `Idempotency-Key`.

use uuid::Uuid;

use super::AppState;
use super::problem::Problem;
use crate::domain::caller::Caller;
use crate::store::idempotency::{self, IdempotencyKey};

/// What an earlier request with the same key has made or moved; `None` when there was none.
pub(super) async fn led_to<I: From<Uuid>>(
    app: &AppState,
    caller: &Caller,
    key: Option<&IdempotencyKey>,
) -> Result<Option<I>, Problem> {
    let led = idempotency::led_to(&app.store, &caller.tenant, key).await?;
    Ok(led.map(|led| I::from(led.id)))
}
