//! A run as text for people, line by line as it happens.

use std::fmt::Write as _;

use serde_json::Value;

/// The lines of one event, given by its name and its data as the stream shows them.
pub(super) fn lines(event: &str, data: &Value) -> String {
    let mut text = String::new();
    if write(&mut text, event, data).is_err() {
        // Writing to a string does not fail; if it did, half a line would be worse than none.
        text.clear();
    }
    text
}

fn write(text: &mut String, event: &str, data: &Value) -> std::fmt::Result {
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
        "step.recorded" => step(text, data),
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

fn step(text: &mut String, step: &Value) -> std::fmt::Result {
    let seq = &step["seq"];
    match string(step, "/kind") {
        "task" => writeln!(text, "    task    {}", string(step, "/parts/0/text")),
        "action" => {
            for said in parts(step, "text") {
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
