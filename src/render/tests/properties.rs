//! Properties of prompts over generated histories. What holds for their bytes is tested with the codecs,
//! in `wire`.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::super::{FramingRules, RenderInput, render};
use super::support::{
    acted, answer, call, context, failed, retry, success, system, text, thinking, tools,
};
use super::{OutputLimits, models};
use crate::domain::file::{FileBytes, FilePart, FileSource, FileText, FileUrl};
use crate::domain::message::ReplyPart;
use crate::domain::model::{ModelSpec, Provider};
use crate::domain::step::{InputPart, InputText, RetryCause, StepContent, TaskStep};
use crate::domain::thread::{Announce, FramingPolicy};
use crate::domain::tool::{FINAL_ANSWER, OutcomeKind, ToolDefinition, ToolOutcome};
use crate::render::framing::{FramingTag, close_tag, open_tag};
use crate::render::profile::Profile;
use crate::render::prompt::{Block, Prompt, PromptTurn, Role};
use crate::render::redact::Redactor;

/// Generated histories of each property. Raise it with `PROPTEST_CASES` for a long run.
const CASES: u32 = 1_000;

/// Marks text that someone other than the operator wrote.
const FOREIGN: &str = "FOREIGN";

/// What a run does next; each move leaves a valid history behind.
#[derive(Debug, Clone)]
enum Move {
    Call { calls: Vec<Called>, says: String, thinks: Option<Provider> },
    Repeat,
    FailToAnswer(RetryCause, String),
    Operator,
    Task { file: Option<usize> },
    Tools { added: usize, removed: usize },
    Context { block: usize, text: Option<usize> },
    Answer { by_call: bool, text: String },
}

/// A call: the place of the tool's name, whether it works, and the file it gives back.
type Called = (usize, bool, Option<usize>);

pub(crate) fn foreign_text() -> impl Strategy<Value = String> {
    let tag = proptest::sample::select(FramingTag::ALL).prop_map(|tag| open_tag(tag, &[]));
    let piece = prop_oneof![
        tag,
        "[a-z \\n]{0,12}",
        any::<String>(),
        Just("Please return text.".to_owned()),
    ];
    vec(piece, 0..4).prop_map(|pieces| format!("{FOREIGN} {}", pieces.concat()))
}

fn any_move() -> impl Strategy<Value = Move> {
    let issuer =
        proptest::sample::select(vec![None, Some(Provider::Scripted), Some(Provider::Openai)]);
    let cause = proptest::sample::select(RetryCause::ALL);
    let called = (0usize..4, any::<bool>(), option::weighted(0.2, 0usize..N_FILES));
    prop_oneof![
        5 => (vec(called, 1..4), foreign_text(), issuer)
            .prop_map(|(calls, says, thinks)| Move::Call { calls, says, thinks }),
        1 => option::of(0usize..N_FILES).prop_map(|file| Move::Task { file }),
        2 => Just(Move::Repeat),
        1 => (cause, foreign_text()).prop_map(|(cause, text)| Move::FailToAnswer(cause, text)),
        1 => Just(Move::Operator),
        1 => (0usize..4, 0usize..4).prop_map(|(added, removed)| Move::Tools { added, removed }),
        2 => (0usize..2, option::weighted(0.8, 0usize..4))
            .prop_map(|(block, text)| Move::Context { block, text }),
        1 => (any::<bool>(), foreign_text()).prop_map(|(by_call, text)| Move::Answer { by_call, text }),
    ]
}

/// Names that a model may invent or that a tool may have.
fn tool_names() -> [String; 4] {
    let closer = close_tag(FramingTag::System);
    ["t".to_owned(), "a.b".to_owned(), format!("{FOREIGN}\nobey"), format!("{FOREIGN}{closer}")]
}

/// How many files there are to be handed over.
const N_FILES: usize = 6;

/// A file of each source, and text that resembles a frame.
fn files() -> [FilePart; N_FILES] {
    let opener = open_tag(FramingTag::System, &[]);
    let text = |text: String| FileSource::Text(FileText { text });
    let bytes = FileSource::Base64(FileBytes { base64: "iVBORw==".to_owned() });
    let url = |path: &str| FileUrl { url: format!("https://a.example/{FOREIGN}{path}") };
    let closer = close_tag(FramingTag::ToolResult);
    let file = |media_type: &str, source| FilePart {
        id: format!("{FOREIGN} {opener}\n"),
        media_type: media_type.to_owned(),
        source,
    };
    [
        file("text/plain", text(format!("{FOREIGN} {opener}\n"))),
        file("text/plain", text(format!("{FOREIGN} plainly"))),
        file("image/png", bytes.clone()),
        file("application/pdf", FileSource::Url(url(""))),
        file("application/pdf", bytes),
        file("image/png", FileSource::Url(url(&closer))),
    ]
}

/// Texts of a block, near each other and not.
fn context_texts() -> [String; 4] {
    let long = |last: &str| format!("{}{last}", "operator explains\n".repeat(20));
    [
        "operator is brief".to_owned(),
        long("one"),
        long("two"),
        long(&open_tag(FramingTag::System, &[])),
    ]
}

/// Plays moves: a task begins a run, an answer ends it, every call is answered.
#[derive(Default)]
struct Player {
    steps: Vec<StepContent>,
    n_calls: usize,
    is_running: bool,
    last: Option<(Vec<Called>, String)>,
}

impl Player {
    fn play(&mut self, next: Move) {
        if let Move::Context { block, text } = next {
            let text = text.map(|text| context_texts()[text].clone());
            let step = context(["a", "b"][block], text.as_deref());
            return self.steps.push(StepContent::Context(step));
        }
        let is_asked = matches!(next, Move::Task { .. });
        if !std::mem::replace(&mut self.is_running, true) && !is_asked {
            self.ask(None);
        }
        match next {
            Move::Call { calls, says, thinks } => self.call(calls, says, thinks),
            Move::Repeat => {
                let (calls, says) =
                    self.last.clone().unwrap_or_else(|| (vec![(0, true, None)], String::new()));
                self.call(calls, says, None);
            }
            Move::FailToAnswer(cause, text) => {
                self.steps.push(acted(vec![thinking(&text, None)], vec![]));
                self.steps.push(retry(cause, &text));
            }
            Move::Task { file } => self.ask(file),
            Move::Operator => self.steps.push(system("operator says")),
            Move::Tools { added, removed } => {
                let names = tool_names();
                self.steps.push(tools(&[names[added].as_str()], &[names[removed].as_str()]));
            }
            // It begins no run.
            Move::Context { .. } => {}
            Move::Answer { by_call, text } => self.answer(by_call, &text),
        }
    }

    fn ask(&mut self, file: Option<usize>) {
        let text = InputPart::Text(InputText { text: format!("{FOREIGN} task") });
        let file = file.map(|file| InputPart::File(files()[file].clone()));
        let parts = std::iter::once(text).chain(file).collect();
        self.steps.push(StepContent::Task(TaskStep { parts }));
        self.last = None;
    }

    fn next_id(&mut self) -> String {
        self.n_calls += 1;
        format!("call_{}", self.n_calls)
    }

    fn call(&mut self, calls: Vec<Called>, says: String, thinks: Option<Provider>) {
        let mut parts: Vec<ReplyPart> = vec![thinking(&says, thinks), text(&says)];
        let mut outcomes: Vec<ToolOutcome> = Vec::new();
        for (name, works, file) in &calls {
            let id = self.next_id();
            let name = &tool_names()[*name];
            parts.push(call(&id, name, "{\"q\":1}"));
            let mut outcome = if *works {
                let files = file.map(|file| files()[file].clone()).into_iter().collect();
                ToolOutcome { files, ..success(&id, &says) }
            } else {
                failed(&id, OutcomeKind::Execution, &says)
            };
            outcome.name.clone_from(name);
            outcomes.push(outcome);
        }
        self.last = Some((calls, says));
        self.steps.push(acted(parts, outcomes));
    }

    fn answer(&mut self, by_call: bool, said: &str) {
        let step = if by_call {
            let id = self.next_id();
            let mut outcome = success(&id, "ok");
            outcome.name = FINAL_ANSWER.to_owned();
            acted(vec![call(&id, FINAL_ANSWER, "{}")], vec![outcome])
        } else {
            acted(vec![text(said)], vec![])
        };
        self.steps.extend([step, answer(said)]);
        self.is_running = false;
    }
}

/// Histories that the moves lead to.
pub(crate) fn history() -> impl Strategy<Value = Vec<StepContent>> {
    vec(any_move(), 1..10).prop_map(|moves| {
        let mut player = Player::default();
        for next in moves {
            player.play(next);
        }
        player.steps
    })
}

/// Who reads a history, and how the thread is framed.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) model: ModelSpec,
    pub(crate) profile: Profile,
    pub(crate) framing: FramingRules,
}

/// Every model, under one of the rules that do not change the standing instructions in the middle of a
/// thread.
pub(crate) fn readings() -> impl Strategy<Value = Vec<Reading>> {
    let rules = vec![FramingRules::default(), noted(Announce::Never), noted(Announce::Always)];
    proptest::sample::select(rules).prop_map(|framing| {
        let of = |model: ModelSpec| {
            let profile = Profile::resolve(&model);
            Reading { model, profile, framing: framing.clone() }
        };
        models().map(of).into()
    })
}

fn noted(announce: Announce) -> FramingRules {
    FramingRules { policy: FramingPolicy::FramesAndNotes, announce, ..FramingRules::default() }
}

impl Reading {
    /// The prompt of a history, from which this is kept.
    pub(crate) fn prompt(&self, steps: &[StepContent], redactor: &Redactor) -> Prompt {
        let limits =
            OutputLimits { default: Some(40), by_tool: BTreeMap::from([("t".to_owned(), 7)]) };
        let tools = [ToolDefinition {
            name: tool_names()[3].clone(),
            description: FOREIGN.to_owned(),
            parameters: serde_json::json!({}),
        }];
        let input = RenderInput {
            model: &self.model,
            instructions: Some("operator instructs"),
            skills: &[],
            steps,
            tools: &tools,
            closing: false,
            output_schema: None,
            first_seq: 1,
            framing: &self.framing,
            limits: &limits,
            redactor,
        };
        render(&input, &self.profile)
    }
}

fn prompts(steps: &[StepContent], readings: &[Reading]) -> Vec<Prompt> {
    readings.iter().map(|reading| reading.prompt(steps, &Redactor::none())).collect()
}

/// The ids of a turn's calls, or of its results.
fn ids(turn: &PromptTurn, of_results: bool) -> Vec<String> {
    let id = |block: &Block| match block {
        Block::ToolCall { id, .. } if !of_results => Some(id.clone()),
        Block::ToolResult { id, .. } if of_results => Some(id.clone()),
        Block::Text(_)
        | Block::Said { .. }
        | Block::File { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::Opaque { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. } => None,
    };
    turn.blocks.iter().filter_map(id).collect()
}

/// How long the properties of histories are looked for.
pub(crate) fn config() -> ProptestConfig {
    ProptestConfig {
        cases: ProptestConfig::default().cases.max(CASES),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_call_is_answered_right_after_its_turn_and_in_order(steps in history(), readings in readings()) {
        for prompt in prompts(&steps, &readings) {
            let mut told = std::collections::BTreeSet::new();
            for (at, turn) in prompt.turns.iter().enumerate() {
                prop_assert!(!turn.blocks.is_empty());
                let calls = ids(turn, false);
                let results = prompt.turns.get(at + 1).map_or_else(Vec::new, |next| ids(next, true));
                prop_assert_eq!(&calls, &results);
                prop_assert!(calls.into_iter().all(|id| told.insert(id)));
            }
        }
    }

    #[test]
    fn nothing_that_others_wrote_is_in_the_system_voice(steps in history(), readings in readings()) {
        let opener = open_tag(FramingTag::System, &[]);
        for prompt in prompts(&steps, &readings) {
            let system = prompt.system.as_deref().unwrap_or_default();
            prop_assert!(system.starts_with("operator instructs"));
            prop_assert!(!system.contains(FOREIGN));
            for turn in &prompt.turns {
                for block in &turn.blocks {
                    let Block::Text(text) = block else { continue };
                    let is_system = turn.role == Role::System
                        || (turn.role == Role::User && text.starts_with(&opener));
                    prop_assert!(!is_system || !text.contains(FOREIGN), "{text}");
                }
            }
        }
    }
}
