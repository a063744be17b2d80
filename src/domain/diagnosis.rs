//! What has to be repaired in a history so that a provider accepts it. The history itself is not
//! changed by it.

use crate::labels;

labels! {
    /// What is repaired.
    RepairCode {
        /// A call without an outcome: the model is told that it was interrupted.
        UnansweredCall = "unanswered_call",
        /// An outcome without a call: it is left out.
        OrphanOutcome = "orphan_outcome",
        /// A further outcome of a call: it is left out.
        DuplicateOutcome = "duplicate_outcome",
        /// A call's id that was told before: another one is told.
        ReusedCallId = "reused_call_id",
        /// A call's id that the provider refuses: another one is told.
        UnfitCallId = "unfit_call_id",
        /// A tool's name that the provider refuses: one made from it is told.
        InvalidToolName = "invalid_tool_name",
        /// Arguments that are no JSON object: they are told inside one.
        InvalidArguments = "invalid_arguments",
        /// Text without anything but white space: it is left out.
        BlankText = "blank_text",
        /// Thinking that the reader cannot take back as its own: it is told in a frame.
        ForeignThinking = "foreign_thinking",
        /// A part that no reader but its issuer has a place for: it is left out.
        LeftOutPart = "left_out_part",
    }
}

impl RepairCode {
    /// What is repaired, and how, as a sentence for people.
    pub const fn message(self) -> &'static str {
        match self {
            Self::UnansweredCall => {
                "the call has no outcome; the model reads that it was interrupted"
            }
            Self::OrphanOutcome => "no call of the reply has this id; the outcome is left out",
            Self::DuplicateOutcome => "the call has an outcome already; this one is left out",
            Self::ReusedCallId => "the id was told before; the model reads another one",
            Self::UnfitCallId => "the provider refuses such an id; the model reads another one",
            Self::InvalidToolName => {
                "the provider refuses such a name; the model reads one made of it"
            }
            Self::InvalidArguments => {
                "the arguments are no JSON object; the model reads one that holds their text"
            }
            Self::BlankText => "there is nothing but white space in it; it is left out",
            Self::ForeignThinking => {
                "the model cannot take it back as its own thinking; it reads it in a frame"
            }
            Self::LeftOutPart => "only its issuer can read it; it is left out",
        }
    }
}

/// One repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// The step.
    pub seq: i64,
    /// What is repaired.
    pub code: RepairCode,
    /// Where in the step, as an RFC 6901 JSON pointer.
    pub pointer: String,
}

/// What a reader needs repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// The reader.
    pub profile: &'static str,
    /// The repairs, in the order of the history.
    pub repairs: Vec<Repair>,
}
