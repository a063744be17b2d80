//! The layer that finds the caller, and the extractor that asks for a scope.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::{Auth, unauthenticated};
use crate::domain::caller::{Caller, Scope};
use crate::error::AgentlingError;
use crate::http::problem::Problem;
use crate::store::scope;

/// Lets only callers through whose credential counts. It stands before every endpoint that belongs
/// to a tenant, so that one which asks for no scope is still not open.
pub async fn authenticate(
    State(auth): State<Arc<Auth>>,
    mut request: Request,
    next: Next,
) -> Response {
    let named = request.uri().authority().map(Authority::as_str);
    match auth.caller(request.headers(), named).await {
        Ok(caller) => {
            let tenant = caller.tenant.clone();
            request.extensions_mut().insert(caller);
            scope::within(&tenant, next.run(request)).await
        }
        Err(problem) => problem.into_response(),
    }
}

/// A scope as a type, so that an endpoint's signature says what it needs.
pub trait NeedsScope {
    /// The scope.
    const SCOPE: Scope;
}

macro_rules! scopes {
    ($($name:ident = $scope:ident,)+) => {$(
        #[doc = concat!("Needs [`Scope::", stringify!($scope), "`].")]
        #[derive(Debug, Clone, Copy)]
        pub enum $name {}

        impl NeedsScope for $name {
            const SCOPE: Scope = Scope::$scope;
        }
    )+};
}

scopes! {
    AgentsRead = AgentsRead,
    AgentsWrite = AgentsWrite,
    RunsRead = RunsRead,
    RunsWrite = RunsWrite,
    MemoryRead = MemoryRead,
    MemoryWrite = MemoryWrite,
    MemorySystem = MemorySystem,
    LedgerRead = LedgerRead,
    ToolsWrite = ToolsWrite,
    SecretsWrite = SecretsWrite,
    AdminOnly = Admin,
}

/// The caller, who has the scope that the endpoint needs.
#[derive(Debug)]
pub struct Scoped<S> {
    caller: Caller,
    scope: PhantomData<S>,
}

impl<S> Deref for Scoped<S> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl<N: NeedsScope, S: Send + Sync> FromRequestParts<S> for Scoped<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller: Caller = parts.extensions.get().cloned().ok_or_else(unauthenticated)?;
        if caller.may(N::SCOPE) {
            Ok(Self { caller, scope: PhantomData })
        } else {
            Err(AgentlingError::Forbidden { required: N::SCOPE }.into())
        }
    }
}
