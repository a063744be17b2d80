//! Stub.
use crate::domain::step::Step;
use serde::Serialize;
use utoipa::ToSchema;
/// stub
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct StepView {
    seq: i64,
}
impl From<Step> for StepView {
    fn from(s: Step) -> Self {
        Self { seq: s.seq }
    }
}
