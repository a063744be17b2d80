//! Runs whose client waits for what comes of them: when it goes away, the run may have to end.

use axum::body::Body;
use axum::response::Response;
use futures::StreamExt as _;

use crate::domain::id::{RunId, TenantId};
use crate::engine::{ClientHold, StartRun, Started};
use crate::error::AgentlingError;
use crate::http::AppState;

/// Starts a run for a client that waits for it.
pub(super) async fn start(
    app: &AppState,
    tenant: &TenantId,
    mut start: StartRun,
) -> Result<(Started, ClientHold), AgentlingError> {
    // The id is made here, so that there is no moment in which a client could go away unnoticed.
    let id = *start.id.get_or_insert_with(|| RunId::from(app.ids.sortable()));
    let policy = start.on_disconnect;
    let hold = app.engine.client(tenant, id, policy);
    match app.engine.start(tenant, start).await {
        Ok(started) if started.run.id == id => Ok((started, hold)),
        // A repeated request waits for the run of the first one.
        Ok(started) => {
            hold.served();
            let hold = app.engine.client(tenant, started.run.id, policy);
            Ok((started, hold))
        }
        Err(error) => {
            hold.served();
            Err(error)
        }
    }
}

/// The response of a client that waits for the end of its body.
pub(super) fn attended(response: Response, hold: ClientHold) -> Response {
    response.map(|body| {
        let pieces = (body.into_data_stream(), hold);
        let attended = futures::stream::unfold(pieces, |(mut pieces, hold)| async move {
            // Where the body ends the server ends it; where it is dropped before, nobody reads it.
            let Some(piece) = pieces.next().await else {
                hold.served();
                return None;
            };
            Some((piece, (pieces, hold)))
        });
        Body::from_stream(attended)
    })
}
