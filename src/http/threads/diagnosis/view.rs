//! A diagnosis as callers ask for it and see it.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::domain::diagnosis::{Diagnosis, Repair, RepairCode};

/// The most repairs that are listed.
const MAX_ITEMS: usize = 1_000;

/// For whom the thread is examined.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http::threads) struct ReadBy {
    /// The family of models that reads the thread, for example `openai`. By default
    /// `openai_compatible`, the one of which least is known.
    #[serde(default)]
    pub(super) profile: Option<String>,
}

/// What is repaired in a thread's memory when a model is asked.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Diagnosis)]
pub(in crate::http::threads) struct DiagnosisView {
    /// The family of models that the thread is examined for.
    profile: String,
    /// How many repairs there are.
    total: usize,
    /// The first 1,000 of them, in the order of the history.
    items: Vec<RepairView>,
}

/// One repair. What is stored stays as it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Repair)]
pub(in crate::http::threads) struct RepairView {
    /// `seq` of the step.
    seq: i64,
    /// What is repaired.
    code: RepairCode,
    /// What is repaired and how, for people.
    message: String,
    /// Where in the step as memory documents of version 2 have it, as a JSON pointer.
    pointer: String,
}

impl From<Repair> for RepairView {
    fn from(Repair { seq, code, pointer }: Repair) -> Self {
        Self { seq, code, message: code.message().to_owned(), pointer }
    }
}

impl From<Diagnosis> for DiagnosisView {
    fn from(Diagnosis { profile, repairs }: Diagnosis) -> Self {
        let total = repairs.len();
        let items = repairs.into_iter().take(MAX_ITEMS).map(RepairView::from).collect();
        Self { profile: profile.to_owned(), total, items }
    }
}
