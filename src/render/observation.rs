//! Tool outcome → the text that the model reads, with its hint.
//!
//! The outcome is stored whole; only this text is cut, and nothing in it is rewritten, because it goes
//! out on a channel of its own.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::announce::is_nameable;
use super::file::mentioned;
use super::fit::{cut, single_line};
use super::prompt::MarkedText;
use crate::domain::agent::AgentSpec;
use crate::domain::ledger::{Origin, Voice};
use crate::domain::skill::{LOAD_SKILL, Skill};
use crate::domain::tool::{OutcomeKind, ToolFailure, ToolOutcome, ToolOutput, ToolSpec};

const INTERRUPTED: &str = "The tool call was interrupted before a result was produced.";
const DENIED: &str = "The tool call was denied.";
const IN_DOUBT: &str = "the call was sent, but its result was lost; it may or may not have taken \
                        effect, and this must be verified before the call is repeated";
const TRUNCATED: &str = "the reply was cut off before the call was complete; nothing was run";
const FIX: &str = "Fix the arguments and try again.";
const RECONSIDER: &str = "Consider a different approach or tool.";
const NUDGE: &str = " Note: you already made this exact tool call and got the same result. \
                     Try a different approach.";

/// The longest message of a failure, in characters, where no tighter bound is set.
const MAX_MESSAGE_CHARS: usize = 8_000;

/// How many characters of a tool's output a model is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputLimits {
    /// For tools without a bound of their own; `None`: all.
    pub default: Option<u32>,
    /// By tool name.
    pub by_tool: BTreeMap<String, u32>,
}

impl OutputLimits {
    /// The same bounds, and those of tools that the agent does not declare itself.
    #[must_use]
    pub fn with(mut self, tools: impl IntoIterator<Item = (String, u32)>) -> Self {
        self.by_tool.extend(tools);
        self
    }

    /// The bound for a tool.
    pub fn of(&self, tool: &str) -> Option<usize> {
        let limit = self.by_tool.get(tool).copied().or(self.default)?;
        Some(usize::try_from(limit).unwrap_or(usize::MAX))
    }

    /// The same for an agent that has skills. Their tools have bounds like its own, and the instructions
    /// themselves are told whole: what is missing in the middle of them would be followed no less.
    #[must_use]
    pub fn with_skills(mut self, skills: &[Skill]) -> Self {
        for tool in skills.iter().flat_map(|skill| &skill.spec.tools) {
            if let Some((name, limit)) = bound(tool) {
                self.by_tool.entry(name).or_insert(limit);
            }
        }
        if !skills.is_empty() {
            self.by_tool.insert(LOAD_SKILL.to_owned(), u32::MAX);
        }
        self
    }
}

impl From<&AgentSpec> for OutputLimits {
    fn from(agent: &AgentSpec) -> Self {
        Self {
            default: agent.max_tool_output_chars,
            by_tool: agent.tools.iter().filter_map(bound).collect(),
        }
    }
}

/// The bound that a tool declares.
fn bound(tool: &ToolSpec) -> Option<(String, u32)> {
    match tool {
        ToolSpec::Http(tool) => Some((tool.name.clone(), tool.max_output_chars?)),
        ToolSpec::Client(tool) => Some((tool.name.clone(), tool.max_output_chars?)),
        ToolSpec::Agent(tool) => Some((tool.name.clone(), tool.max_output_chars?)),
        ToolSpec::Mcp(_) | ToolSpec::Builtin(_) => None,
    }
}

/// What an observation depends on beside its outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObservationContext {
    /// The bound in characters; `None`: all.
    pub max_chars: Option<usize>,
    /// Whether the turn before made exactly the same calls.
    pub is_repeat: bool,
}

/// What the model is told about an outcome.
pub fn observation(outcome: &ToolOutcome, context: ObservationContext) -> String {
    observed(outcome, context, Origin::WIRE).into_string()
}

/// The same with where its pieces come from. `origin` names the place of the outcome.
pub fn observed(outcome: &ToolOutcome, context: ObservationContext, origin: &Origin) -> MarkedText {
    let sources = Sources::of(origin);
    let text = match outcome.kind {
        OutcomeKind::Success => success(outcome, context, &sources),
        OutcomeKind::Cancelled | OutcomeKind::Interrupted => return sources.ours(INTERRUPTED),
        OutcomeKind::Denied => return denied(outcome, context, &sources),
        OutcomeKind::InvalidArguments => failure(outcome, context, (FIX, &sources)),
        OutcomeKind::Execution | OutcomeKind::Timeout | OutcomeKind::UnknownTool => {
            failure(outcome, context, (RECONSIDER, &sources))
        }
        // Nothing came of these that a repeat could repeat.
        OutcomeKind::InDoubt | OutcomeKind::Truncated => {
            return failure(outcome, context, (RECONSIDER, &sources));
        }
    };
    text.with(if context.is_repeat { NUDGE } else { "" }, &sources.ours)
}

/// Whose words an observation is made of.
struct Sources {
    ours: Origin,
    theirs: Origin,
}

impl Sources {
    fn of(origin: &Origin) -> Self {
        Self { ours: origin.spoken(Voice::Application), theirs: origin.spoken(Voice::Data) }
    }

    fn ours(&self, text: &str) -> MarkedText {
        MarkedText::of(text, self.ours.clone())
    }

    /// As much of a text of someone else as may be told.
    fn theirs(&self, text: &str, limit: Option<usize>) -> MarkedText {
        let Some([head, omitted, tail]) = limit.and_then(|limit| cut(text, limit)) else {
            return MarkedText::of(text, self.theirs.clone());
        };
        let truncated = |origin: &Origin| Origin { truncated: true, ..origin.clone() };
        let theirs = truncated(&self.theirs);
        MarkedText::of(head, theirs.clone())
            .with(&omitted, &truncated(&self.ours))
            .with(&tail, &theirs)
    }
}

fn success(outcome: &ToolOutcome, context: ObservationContext, sources: &Sources) -> MarkedText {
    let text = match &outcome.output {
        Some(ToolOutput::Text(output)) => Cow::Borrowed(output.text.as_str()),
        Some(ToolOutput::Json(output)) => Cow::Owned(output.text()),
        None => Cow::Borrowed(""),
    };
    let shown = sources.theirs(&text, context.max_chars);
    let files = mentioned(!shown.is_empty(), &outcome.files);
    shown.with(&files, &sources.ours)
}

fn denied(outcome: &ToolOutcome, context: ObservationContext, sources: &Sources) -> MarkedText {
    let mut text = sources.ours(DENIED);
    if let Some(message) = stored_message(outcome) {
        text.push(" ", &sources.ours);
        text.append(&sources.theirs(message, Some(message_limit(context))));
    }
    text
}

fn failure(
    outcome: &ToolOutcome,
    context: ObservationContext,
    (hint, sources): (&str, &Sources),
) -> MarkedText {
    let name = single_line(&outcome.name);
    let mut text = sources.ours("Error from '").with(&name, &sources.theirs);
    text.push("': ", &sources.ours);
    text.append(&sources.theirs(&message(outcome), Some(message_limit(context))));
    text.with(&format!(". {hint}"), &sources.ours)
}

fn message_limit(context: ObservationContext) -> usize {
    context.max_chars.unwrap_or(MAX_MESSAGE_CHARS).min(MAX_MESSAGE_CHARS)
}

/// The message as stored, or what can be said without one.
fn message(outcome: &ToolOutcome) -> String {
    if let Some(failure) = outcome.error.as_ref().filter(|failure| failure.redacted) {
        return suppressed(outcome, failure);
    }
    if let Some(message) = stored_message(outcome) {
        return message.to_owned();
    }
    let name = single_line(&outcome.name);
    match outcome.kind {
        OutcomeKind::InDoubt => IN_DOUBT.to_owned(),
        OutcomeKind::Truncated => TRUNCATED.to_owned(),
        OutcomeKind::InvalidArguments => "the arguments do not fit the tool's schema".to_owned(),
        OutcomeKind::Timeout => format!("tool '{name}' exceeded its timeout"),
        OutcomeKind::UnknownTool => format!("Unknown tool '{name}'"),
        OutcomeKind::Success
        | OutcomeKind::Execution
        | OutcomeKind::Denied
        | OutcomeKind::Cancelled
        | OutcomeKind::Interrupted => "the call failed without a message".to_owned(),
    }
}

fn suppressed(outcome: &ToolOutcome, failure: &ToolFailure) -> String {
    let (type_name, name) = (single_line(&failure.r#type), single_line(&outcome.name));
    format!("{type_name} while running '{name}' (details suppressed)")
}

fn stored_message(outcome: &ToolOutcome) -> Option<&str> {
    let message = outcome.error.as_ref().map(|failure| failure.message.as_str())?;
    Some(message).filter(|message| !message.is_empty())
}

/// The message to store with a call of a tool that does not exist. Only names that may stand in a
/// sentence are listed.
pub fn unknown_tool_message<'a, I>(name: &str, available: I) -> String
where
    I: IntoIterator<Item = &'a str>,
{
    let names: Vec<&str> = available.into_iter().filter(|name| is_nameable(name)).collect();
    format!("Unknown tool '{}'. Available: {}", single_line(name), names.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::file::{FileBytes, FilePart, FileSource};
    use crate::domain::tool::JsonOutput;
    use crate::render::tests::support::{failed, json_output, success};

    fn plainly(outcome: &ToolOutcome) -> String {
        observation(outcome, ObservationContext::default())
    }

    #[test]
    fn a_success_is_its_output() {
        assert_eq!(plainly(&success("c", " as <is>\n")), " as <is>\n");
        let output = json_output("c", json!({"b": 1, "a": [null, "x"]}));
        assert_eq!(plainly(&output), r#"{"b":1,"a":[null,"x"]}"#);
        let mut output = output;
        let spelt = JsonOutput::of(r#"{"b": 1.10, "a": 1e2}"#).unwrap();
        output.output = Some(ToolOutput::Json(spelt));
        assert_eq!(plainly(&output), r#"{"b":1.10,"a":1e2}"#);
    }

    #[test]
    fn a_success_names_its_files_after_what_it_says() {
        let file = |id: &str| FilePart {
            id: id.to_owned(),
            media_type: "image/png".to_owned(),
            source: FileSource::Base64(FileBytes { base64: "iVBORw==".to_owned() }),
        };
        let mut outcome = success("c", "abcd");
        outcome.files = vec![file("a.png"), file("b\n.png")];
        let context = ObservationContext { max_chars: Some(2), is_repeat: false };
        assert_eq!(
            observation(&outcome, context),
            "a\n... [2 characters omitted] ...\nd\nSee file a.png.\nSee file b\u{fffd}.png."
        );
        outcome.output = None;
        outcome.files.truncate(1);
        assert_eq!(plainly(&outcome), "See file a.png.");
        let repeat = ObservationContext { max_chars: None, is_repeat: true };
        assert!(observation(&outcome, repeat).starts_with("See file a.png. Note: you already"));
    }

    #[test]
    fn every_failure_kind_has_its_text_and_hint() {
        let cases = [
            (OutcomeKind::InvalidArguments, "Error from 't': m. Fix the arguments and try again."),
            (OutcomeKind::Execution, "Error from 't': m. Consider a different approach or tool."),
            (OutcomeKind::Timeout, "Error from 't': m. Consider a different approach or tool."),
            (OutcomeKind::UnknownTool, "Error from 't': m. Consider a different approach or tool."),
            (OutcomeKind::InDoubt, "Error from 't': m. Consider a different approach or tool."),
            (OutcomeKind::Truncated, "Error from 't': m. Consider a different approach or tool."),
            (OutcomeKind::Denied, "The tool call was denied. m"),
            (OutcomeKind::Cancelled, INTERRUPTED),
            (OutcomeKind::Interrupted, INTERRUPTED),
        ];
        for (kind, expected) in cases {
            assert_eq!(plainly(&failed("c", kind, "m")), expected);
        }
        assert_eq!(cases.len() + 1, OutcomeKind::ALL.len(), "success and every failure");
    }

    #[test]
    fn a_failure_without_a_message_still_says_what_is_known() {
        for kind in OutcomeKind::ALL.iter().filter(|kind| **kind != OutcomeKind::Success) {
            let outcome = ToolOutcome { error: None, ..failed("c", *kind, "") };
            assert_eq!(plainly(&outcome), plainly(&failed("c", *kind, "")));
            assert!(!plainly(&outcome).contains(": ."), "{kind}");
        }
        assert!(plainly(&failed("c", OutcomeKind::InDoubt, "")).contains("may or may not"));
        assert!(plainly(&failed("c", OutcomeKind::Truncated, "")).contains("nothing was run"));
    }

    #[test]
    fn a_redacted_error_shows_its_type_and_nothing_else() {
        let mut outcome = failed("c", OutcomeKind::Execution, "secret");
        outcome.error = Some(ToolFailure {
            r#type: "Http\nStatus".to_owned(),
            message: "secret".to_owned(),
            redacted: true,
        });
        assert_eq!(
            plainly(&outcome),
            "Error from 't': Http\u{fffd}Status while running 't' (details suppressed). \
             Consider a different approach or tool."
        );
    }

    #[test]
    fn a_repeat_ends_with_the_nudge_after_the_cut() {
        let context = ObservationContext { max_chars: Some(2), is_repeat: true };
        assert_eq!(
            observation(&success("c", "abcd"), context),
            "a\n... [2 characters omitted] ...\nd Note: you already made this exact tool call and got \
             the same result. Try a different approach."
        );
        let interrupted = failed("c", OutcomeKind::Interrupted, "");
        assert_eq!(observation(&interrupted, context), INTERRUPTED);
    }

    #[test]
    fn a_long_message_is_bounded_and_keeps_its_hint() {
        let outcome = failed("c", OutcomeKind::Execution, &"x".repeat(100_000));
        let text = plainly(&outcome);
        assert!(text.len() < 9_000);
        assert!(text.ends_with(RECONSIDER));
    }

    #[test]
    fn an_unknown_tool_is_answered_with_the_names_that_may_be_said() {
        assert_eq!(
            unknown_tool_message("a\nb", ["x", "evil`", "y z"]),
            "Unknown tool 'a\u{fffd}b'. Available: x, y z"
        );
    }

    #[test]
    fn a_bound_of_the_tool_comes_before_the_general_one() {
        let agent: AgentSpec = serde_json::from_value(json!({
            "name": "a", "model": {"provider": "scripted", "name": "m"}, "max_tool_output_chars": 9,
            "tools": [
                {"kind": "http", "name": "t", "url": "http://x", "parameters": {}, "max_output_chars": 5},
                {"kind": "http", "name": "u", "url": "http://x", "parameters": {}},
                {"kind": "builtin", "name": "final_answer"},
            ],
        }))
        .unwrap();
        let limits = OutputLimits::from(&agent);
        assert_eq!((limits.of("t"), limits.of("u")), (Some(5), Some(9)));
        assert_eq!(OutputLimits::default().of("t"), None);
    }
}
