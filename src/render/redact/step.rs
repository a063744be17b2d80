//! Redaction of steps and of what they are made of.
//!
//! What a provider signed or sealed is left out when it would have to change: edited, its issuer would
//! refuse it, and the conversation with it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Redactor, Tally};
use crate::domain::file::{FilePart, FileSource, FileText};
use crate::domain::message::{Reply, ReplyPart, TextPart, ThinkingPart, ToolCallPart};
use crate::domain::redaction::{PLACEHOLDER_START, RedactionChannel};
use crate::domain::run::RunFacts;
use crate::domain::step::{
    ActionStep, ErrorDetail, FinalStep, InputPart, RetryContent, RetryStep, StepContent,
};
use crate::domain::tool::{JsonOutput, ToolFailure, ToolOutcome, ToolOutput};

/// Edits a copy of what is stored.
pub(super) struct Editor<'a> {
    pub(super) redactor: &'a Redactor,
    pub(super) channel: RedactionChannel,
    /// The names of tools that stay.
    pub(super) tools: &'a BTreeSet<&'a str>,
    pub(super) tally: &'a mut Tally,
}

impl Editor<'_> {
    pub(super) fn step(&mut self, step: &mut StepContent) {
        match step {
            StepContent::Task(task) => {
                for part in &mut task.parts {
                    match part {
                        InputPart::Text(part) => self.text(&mut part.text),
                        InputPart::File(file) => self.file(file),
                    }
                }
            }
            StepContent::Action(action) => self.action(action),
            StepContent::Retry(retry) => self.retry(retry),
            StepContent::System(system) => self.text(&mut system.text),
            StepContent::Context(block) => self.text_opt(block.text.as_mut()),
            StepContent::Tools(tools) => {
                tools.added.iter_mut().chain(&mut tools.removed).for_each(|name| self.tool(name));
            }
            StepContent::Summary(summary) => self.text_opt(summary.text.as_mut()),
            StepContent::Final(answer) => self.answer(answer),
        }
    }

    fn text(&mut self, text: &mut String) {
        if let Cow::Owned(new) = self.redactor.text_counted(self.channel, text, self.tally) {
            *text = new;
        }
    }

    fn tool(&mut self, name: &mut String) {
        if !self.tools.contains(name.as_str()) {
            self.text(name);
        }
    }

    /// Redacts what someone else gave a form, in which patterns would find places by chance.
    fn known(&mut self, text: &mut String) {
        if let Cow::Owned(new) = self.redactor.values_counted(self.channel, text, self.tally) {
            *text = new;
        }
    }

    fn known_opt(&mut self, text: Option<&mut String>) {
        if let Some(text) = text {
            self.known(text);
        }
    }

    fn text_opt(&mut self, text: Option<&mut String>) {
        if let Some(text) = text {
            self.text(text);
        }
    }

    fn json_text(&mut self, text: &mut String) {
        if let Cow::Owned(new) = self.redactor.json_text_counted(self.channel, text, self.tally) {
            *text = new;
        }
    }

    fn json(&mut self, value: &mut Value) {
        if let Cow::Owned(new) = self.redactor.json_counted(self.channel, value, self.tally) {
            *value = new;
        }
    }

    fn action(&mut self, action: &mut ActionStep) {
        self.reply(&mut action.reply);
        for outcome in &mut action.outcomes {
            self.outcome(outcome);
        }
        if let Some(extras) = &mut action.v1 {
            self.text_opt(extras.error.as_mut());
        }
    }

    pub(super) fn reply(&mut self, reply: &mut Reply) {
        self.known_opt(reply.model.as_mut());
        self.known_opt(reply.host.as_mut());
        self.known_opt(reply.response_id.as_mut());
        reply.parts.retain_mut(|part| self.keeps(part));
    }

    /// Redacts a part; says whether it can stay.
    fn keeps(&mut self, part: &mut ReplyPart) -> bool {
        match part {
            ReplyPart::Text(part) => self.bound_text(part),
            ReplyPart::Thinking(ThinkingPart { text, signature: None, echo: None, .. }) => {
                self.text(text);
            }
            ReplyPart::Refusal(part) => self.text(&mut part.text),
            ReplyPart::ToolCall(call) => self.call(call),
            ReplyPart::Thinking(thinking) => {
                let echo = thinking.echo.as_ref();
                return self.is_clean(&thinking.text)
                    && echo.is_none_or(|it| self.is_clean_json(it));
            }
            ReplyPart::RedactedThinking(sealed) => return self.is_clean(&sealed.data),
            // Nobody knows what it is, so it may be bound like thinking.
            ReplyPart::Unknown(part) => return self.is_clean_json(&part.raw),
        }
        true
    }

    fn is_clean(&mut self, text: &str) -> bool {
        let shown = self.redactor.text_counted(self.channel, text, self.tally);
        matches!(shown, Cow::Borrowed(_))
    }

    fn is_clean_json(&mut self, value: &Value) -> bool {
        let shown = self.redactor.json_counted(self.channel, value, self.tally);
        matches!(shown, Cow::Borrowed(_))
    }

    /// What the issuer wants back beside a text may be bound to it: it goes when the text changes.
    fn bound_text(&mut self, part: &mut TextPart) {
        if let Cow::Owned(new) = self.redactor.text_counted(self.channel, &part.text, self.tally) {
            part.text = new;
            part.echo = None;
        }
        self.echo(&mut part.echo);
    }

    fn call(&mut self, call: &mut ToolCallPart) {
        self.known_opt(call.provider_call_id.as_mut());
        self.tool(&mut call.name);
        let (channel, arguments) = (self.channel, &call.arguments);
        let shown = self.redactor.json_text_counted(channel, arguments, self.tally);
        if let Cow::Owned(new) = shown {
            call.arguments = new;
            call.echo = None;
        }
        self.echo(&mut call.echo);
    }

    fn echo(&mut self, echo: &mut Option<Value>) {
        if echo.as_ref().is_some_and(|value| !self.is_clean_json(value)) {
            *echo = None;
        }
    }

    pub(super) fn outcome(&mut self, outcome: &mut ToolOutcome) {
        self.tool(&mut outcome.name);
        if let Some(output) = &mut outcome.output {
            self.output(output);
        }
        outcome.files.iter_mut().for_each(|file| self.file(file));
        if let Some(failure) = &mut outcome.error {
            self.failure(failure);
        }
    }

    pub(super) fn output(&mut self, output: &mut ToolOutput) {
        match output {
            ToolOutput::Text(output) => self.text(&mut output.text),
            ToolOutput::Json(output) => self.json_output(output),
        }
    }

    pub(super) fn failure(&mut self, failure: &mut ToolFailure) {
        self.text(&mut failure.r#type);
        self.text(&mut failure.message);
    }

    /// A file that comes as bytes becomes text when it has to change: all of it when its bytes are text,
    /// else the placeholders alone.
    fn file(&mut self, file: &mut FilePart) {
        self.text(&mut file.id);
        match &mut file.source {
            FileSource::Text(source) => self.text(&mut source.text),
            FileSource::Url(source) => self.text(&mut source.url),
            FileSource::Base64(source) => {
                if let Some(text) = self.bytes(&source.base64) {
                    file.source = FileSource::Text(FileText { text });
                }
            }
        }
    }

    /// What is left of a file's bytes as text; `None` when they can stay.
    fn bytes(&mut self, base64: &str) -> Option<String> {
        let bytes = STANDARD.decode(base64).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        // In bytes that are no text a pattern would find places by chance.
        let shown = match &text {
            Cow::Borrowed(text) => self.redactor.text_counted(self.channel, text, self.tally),
            Cow::Owned(text) => self.redactor.values_counted(self.channel, text, self.tally),
        };
        match (shown, &text) {
            (Cow::Borrowed(_), _) => None,
            (Cow::Owned(shown), Cow::Borrowed(_)) => Some(shown),
            (Cow::Owned(shown), Cow::Owned(_)) => Some(placeholders(&shown)),
        }
    }

    fn json_output(&mut self, output: &mut JsonOutput) {
        let text = output.text();
        if let Cow::Owned(new) = self.redactor.json_text_counted(self.channel, &text, self.tally) {
            *output = JsonOutput::of(&new).unwrap_or_else(|_| Value::String(new).into());
        }
    }

    fn retry(&mut self, retry: &mut RetryStep) {
        match &mut retry.content {
            RetryContent::Message(message) => self.text(message),
            RetryContent::Errors(errors) => {
                for ErrorDetail { r#type, loc, msg, input } in errors {
                    self.known(r#type);
                    self.text(msg);
                    loc.iter_mut().chain(input).for_each(|value| self.json(value));
                }
            }
        }
    }

    /// With a value beside it, the text of an answer is that value as JSON.
    fn answer(&mut self, answer: &mut FinalStep) {
        self.answered(answer.output.as_mut(), Some(&mut answer.answer));
    }

    pub(super) fn facts(&mut self, facts: &mut RunFacts) {
        self.answered(facts.output.as_mut(), facts.answer.as_mut());
        self.text_opt(facts.failure.as_mut().map(|failure| &mut failure.detail));
        let waiting = facts.requires_action.iter_mut().flat_map(|waits| &mut waits.tool_calls);
        for call in waiting {
            self.json_text(&mut call.arguments);
        }
    }

    fn answered(&mut self, output: Option<&mut Value>, text: Option<&mut String>) {
        let is_json = output.is_some();
        if let Some(output) = output {
            self.json(output);
        }
        match text {
            Some(text) if is_json => self.json_text(text),
            text => self.text_opt(text),
        }
    }
}

/// The placeholders of a text, without what stands between them.
fn placeholders(text: &str) -> String {
    let after = text.split(PLACEHOLDER_START).skip(1);
    let inner = after.filter_map(|rest| Some(rest.split_once(']')?.0));
    inner.map(|inner| [PLACEHOLDER_START, inner, "]"].concat()).collect::<Vec<_>>().join(" ")
}
