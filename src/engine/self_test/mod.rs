//! Whether credentials stay in: made-up ones are sent down every way out, each by the code that serves it,
//! under rules that know them. Nothing is stored and nobody is told.

mod canaries;

use std::sync::Arc;

use serde_json::json;

use super::Engine;
use super::prompt::{Equipped, Prompter, Told};
use super::redaction::Redaction;
use crate::domain::agent::AgentSpec;
use crate::domain::id::CallId;
use crate::domain::redaction::RedactionChannel;
use crate::domain::step::{InputPart, InputText, StepContent, TaskStep};
use crate::domain::thread::{Announce, FramingPolicy};
use crate::domain::tool::{OutcomeKind, ToolFailure, ToolOutcome};
use crate::error::AgentlingError;
use crate::render::redact::StreamRedactor;

pub use canaries::{Canaries, Canary};

/// What a way out makes of a text, under rules that know the canaries.
pub type Way<'a> = Box<dyn Fn(&Redaction, &str) -> String + Send + Sync + 'a>;

/// A way out of the server.
pub struct Sink<'a> {
    /// Its name.
    pub name: &'static str,
    /// Whether what looks like a credential is kept from it too. A conversation is its parties' own: from
    /// it, known values alone are taken.
    pub takes_shapes: bool,
    /// What it makes of a text.
    pub way: Way<'a>,
}

impl std::fmt::Debug for Sink<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What came of a way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Its name.
    pub sink: &'static str,
    /// The canaries that were sent down it.
    pub sent: Vec<&'static str>,
    /// Those that came out.
    pub leaked: Vec<&'static str>,
}

/// Sends canaries down ways out. One that swallows the text around them has shown nothing, and counts as
/// a leak of them all.
pub fn search(redaction: &Redaction, canaries: &Canaries, sinks: &[Sink<'_>]) -> Vec<Report> {
    let knowing = redaction.knowing(&canaries.value.0);
    let report = |sink: &Sink<'_>| {
        let is_sent = |canary: &&Canary| sink.takes_shapes || !canary.is_shape;
        let sent: Vec<&Canary> = canaries.list.iter().filter(is_sent).collect();
        let leaked = sent.iter().filter(|canary| leaks(&knowing, sink, canary));
        Report {
            sink: sink.name,
            leaked: leaked.map(|canary| canary.name).collect(),
            sent: sent.iter().map(|canary| canary.name).collect(),
        }
    };
    sinks.iter().map(report).collect()
}

/// What stands around a canary, so that a text that came out is known again.
const AROUND: [&str; 2] = ["ahead of it", "behind it"];

fn leaks(redaction: &Redaction, sink: &Sink<'_>, canary: &Canary) -> bool {
    let [before, after] = AROUND;
    let came = (sink.way)(redaction, &format!("{before} {} {after}", canary.text));
    came.contains(&canary.needle) || AROUND.iter().any(|edge| !came.contains(edge))
}

/// The ways out that begin in the engine.
///
/// # Errors
/// When no agent can be made up that is told something.
pub fn sinks(engine: &Engine) -> Result<Vec<Sink<'_>>, AgentlingError> {
    let model = json!({"provider": "scripted", "name": "none"});
    let agent: Result<AgentSpec, _> =
        serde_json::from_value(json!({"name": "self-test", "model": model}));
    let agent = agent.map_err(|error| AgentlingError::internal(error.to_string()))?;
    let step = |redaction: &Redaction, text: &str| step(redaction, RedactionChannel::Api, text);
    Ok(vec![
        Sink {
            name: "model_request",
            takes_shapes: false,
            way: Box::new(move |redaction, text| model_request(engine, &agent, redaction, text)),
        },
        Sink { name: "observation", takes_shapes: true, way: Box::new(observation) },
        Sink { name: "stream", takes_shapes: false, way: Box::new(stream) },
        Sink { name: "step", takes_shapes: false, way: Box::new(step) },
        Sink { name: "trace", takes_shapes: true, way: Box::new(trace) },
    ])
}

/// What a model would be asked, which is what the ledger keeps.
fn model_request(engine: &Engine, agent: &AgentSpec, redaction: &Redaction, text: &str) -> String {
    let told = StepContent::Task(TaskStep { parts: vec![part(text)] });
    let agent = AgentSpec { instructions: Some(text.to_owned()), ..agent.clone() };
    let redactor = Arc::new(redaction.of_no_thread(&[]));
    let framing = engine.framing(FramingPolicy::default(), Announce::default());
    let equipped = Equipped { agent: &agent, pins: None, skills: &[] };
    let prompter = Prompter::new(&engine.context.parts.toolbox, equipped, &framing, &redactor);
    let told = Told { steps: &[told], first_seq: 1, closing: false };
    String::from_utf8_lossy(&prompter.dry_call(told).request()).into_owned()
}

fn part(text: &str) -> InputPart {
    InputPart::Text(InputText { text: text.to_owned() })
}

/// What is kept of a failure that a tool tells, which is what the model reads of it.
fn observation(redaction: &Redaction, text: &str) -> String {
    let failure =
        ToolFailure { r#type: "HttpStatus".to_owned(), message: text.to_owned(), redacted: false };
    let call = CallId("self-test".to_owned());
    let mut outcome = ToolOutcome::not_run(call, "tool", OutcomeKind::Execution, Some(failure));
    redaction.of_outside().outcome(RedactionChannel::Model, &mut outcome);
    serde_json::to_string(&outcome).unwrap_or_default()
}

/// What readers see of a reply that arrives letter by letter.
fn stream(redaction: &Redaction, text: &str) -> String {
    let redactor = Arc::new(redaction.of_no_thread(&[]));
    let mut stream = StreamRedactor::new(redactor, RedactionChannel::Api);
    let mut shown = String::new();
    for letter in text.chars() {
        shown.push_str(&stream.push(letter.encode_utf8(&mut [0; 4])));
    }
    shown + &stream.finish()
}

/// What a channel shows of a step.
fn step(redaction: &Redaction, channel: RedactionChannel, text: &str) -> String {
    serde_json::to_string(&shown(redaction, channel, text)).unwrap_or_default()
}

/// A step that holds a text, as a channel shows it.
pub fn shown(redaction: &Redaction, channel: RedactionChannel, text: &str) -> StepContent {
    let told = StepContent::Task(TaskStep { parts: vec![part(text)] });
    redaction.of_no_thread(&[]).step(channel, &told).into_owned()
}

fn trace(redaction: &Redaction, text: &str) -> String {
    redaction.of_server().text(RedactionChannel::Trace, text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::System;

    /// A way out whose scrubber is missing.
    fn leaking() -> Sink<'static> {
        Sink { name: "leak", takes_shapes: true, way: Box::new(|_, text| text.to_owned()) }
    }

    fn searched(sink: Sink<'_>) -> Report {
        let redaction = Redaction::new([1; 32], &[], []);
        let canaries = Canaries::draw(&System::new()).unwrap();
        search(&redaction, &canaries, &[sink]).remove(0)
    }

    #[test]
    fn a_way_out_without_its_scrubber_leaks_every_canary() {
        let report = searched(leaking());
        assert_eq!(report.leaked, report.sent);
        assert_eq!(report.sent.len(), 11, "{report:?}");
    }

    #[test]
    fn a_way_out_that_swallows_what_it_is_given_has_shown_nothing() {
        let report = searched(Sink { way: Box::new(|_, _| String::new()), ..leaking() });
        assert_eq!(report.leaked, report.sent);
    }

    #[test]
    fn one_that_knows_values_and_no_shapes_leaks_the_shapes() {
        let way: Way<'_> = Box::new(|redaction, text| {
            redaction.of_no_thread(&[]).text(RedactionChannel::Log, text).into_owned()
        });
        let report = searched(Sink { way, ..leaking() });
        assert_eq!(report.leaked.len(), 7, "{report:?}");
        assert!(report.leaked.iter().all(|name| !name.starts_with("value")), "{report:?}");
    }

    #[test]
    fn the_ways_that_are_pure_withhold_every_canary() {
        for (name, way) in
            [("trace", trace as fn(&Redaction, &str) -> String), ("observation", observation)]
        {
            let report = searched(Sink { name, takes_shapes: true, way: Box::new(way) });
            assert_eq!(report.leaked, Vec::<&str>::new(), "{name}");
        }
        let report = searched(Sink { name: "stream", takes_shapes: false, way: Box::new(stream) });
        assert_eq!((report.leaked.len(), report.sent.len()), (0, 4));
    }

    #[test]
    fn canaries_are_drawn_anew_and_never_printed() {
        let [one, other] = [(); 2].map(|()| Canaries::draw(&System::new()).unwrap());
        assert!(one.list.iter().zip(&other.list).all(|(a, b)| a.needle != b.needle));
        let shown = format!("{one:?}");
        assert!(one.list.iter().all(|canary| !shown.contains(&canary.needle)), "{shown}");
    }
}
