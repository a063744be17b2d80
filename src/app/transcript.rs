//! A run as text for people, line by line as it happens.

use std::fmt::Write as _;

use serde_json::Value;

/// What the model said, as far as it was heard before the step that holds it.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    heard: String,
    is_told: bool,
}

impl Transcript {
    /// A piece of what the model says.
    pub(super) fn hear(&mut self, text: &str) {
        self.heard.push_str(text);
    }

    /// The lines of one event, given by its name and its data as the stream shows them. What was said
    /// before a call stands before it.
    pub(super) fn lines(&mut self, event: &str, data: &Value) -> String {
        let mut text = String::new();
        if event == "tool.call" && !self.heard.is_empty() {
            text = format!("    says    {}\n", std::mem::take(&mut self.heard));
            self.is_told = true;
        }
        let is_action = event == "step.recorded" && string(data, "/kind") == "action";
        let skips_words = is_action && std::mem::take(&mut self.is_told);
        if write(&mut text, event, data, skips_words).is_err() {
            // Writing to a string does not fail; if it did, half a line would be worse than none.
            text.clear();
        }
        if is_action {
            self.heard.clear();
        }
        text
    }
}

fn write(text: &mut String, event: &str, data: &Value, skips_words: bool) -> std::fmt::Result {
    match event {
        "run.created" => writeln!(text, "  run {} accepted", string(data, "/id")),
        "turn.started" => writeln!(text, "\n  turn {}", data["turn"]),
        "turn.restarted" => {
            writeln!(text, "\n  turn {}, attempt {}", data["turn"], data["attempt"])
        }
        "tool.call" => {
            writeln!(text, "    call    {} {}", string(data, "/name"), string(data, "/arguments"))
        }
        "tool.result" => writeln!(text, "    {}", outcome(&data["outcome"])),
        "step.recorded" => step(text, data, skips_words),
        "run.completed" => writeln!(
            text,
            "\n  completed ({}), {} tokens in, {} out",
            string(data, "/stop_reason"),
            number(data, "/usage/input"),
            number(data, "/usage/output")
        ),
        "run.failed" => writeln!(text, "\n  failed: {}", string(data, "/error/detail")),
        "run.cancelled" | "run.interrupted" => writeln!(text, "\n  {}", string(data, "/status")),
        _ => Ok(()),
    }
}

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

fn step(text: &mut String, step: &Value, skips_words: bool) -> std::fmt::Result {
    let seq = &step["seq"];
    match string(step, "/kind") {
        "task" => writeln!(text, "    task    {}", string(step, "/parts/0/text")),
        "action" => {
            for said in parts(step, "text").filter(|_| !skips_words) {
                writeln!(text, "    says    {said}")?;
            }
            writeln!(text, "    step {seq} committed")
        }
        "retry" => writeln!(text, "    asked again: {}", step["content"]),
        "final" => writeln!(text, "    answer  {}", string(step, "/answer")),
        _ => Ok(()),
    }
}

fn parts<'a>(step: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a str> {
    let parts = step.pointer("/reply/parts").and_then(Value::as_array);
    parts
        .into_iter()
        .flatten()
        .filter(move |part| part["part_kind"] == kind)
        .filter_map(|part| part["text"].as_str())
}

fn outcome(outcome: &Value) -> String {
    if outcome["is_error"] == Value::Bool(true) {
        return format!(
            "error   {}: {}",
            string(outcome, "/kind"),
            string(outcome, "/error/message")
        );
    }
    let output = outcome.pointer("/output/json").or_else(|| outcome.pointer("/output/text"));
    format!("result  {}", output.map(Value::to_string).unwrap_or_default())
}

fn string<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lines(event: &str, data: &Value) -> String {
        Transcript::default().lines(event, data)
    }

    #[test]
    fn what_was_said_before_a_call_stands_before_it_and_only_once() {
        let mut transcript = Transcript::default();
        transcript.hear("Let me ");
        transcript.hear("look.");
        let call = json!({"name": "t", "arguments": "{}"});
        let told = transcript.lines("tool.call", &call);
        assert_eq!(told, "    says    Let me look.\n    call    t {}\n");
        let said = json!({"part_kind": "text", "text": "Let me look."});
        let step = json!({"kind": "action", "seq": 2, "reply": {"parts": [said]}});
        assert_eq!(transcript.lines("step.recorded", &step), "    step 2 committed\n");
        let unheard = transcript.lines("step.recorded", &step);
        assert_eq!(unheard, "    says    Let me look.\n    step 2 committed\n");
    }

    #[test]
    fn a_call_and_its_outcomes_read_as_lines() {
        let call = json!({"name": "weather", "arguments": "{\"city\":\"Oslo\"}"});
        assert_eq!(lines("tool.call", &call), "    call    weather {\"city\":\"Oslo\"}\n");
        let output = json!({"output_kind": "json", "json": {"sky": "snow"}});
        let result = json!({"outcome": {"is_error": false, "output": output}});
        assert_eq!(lines("tool.result", &result), "    result  {\"sky\":\"snow\"}\n");
        let error = json!({"message": "no"});
        let result = json!({"outcome": {"is_error": true, "kind": "execution", "error": error}});
        assert_eq!(lines("tool.result", &result), "    error   execution: no\n");
    }

    #[test]
    fn what_has_no_words_is_left_out() {
        assert_eq!(lines("run.started", &json!({})), "");
    }
}
