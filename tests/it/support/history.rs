//! The history of a database without what differs from one run of the same story to the next.

use serde_json::Value;

use super::TestDb;

const CALL_IDS: &str = "SELECT call_id FROM tool_call ORDER BY step_seq, call_idx";

/// A turn that was tried again is told; everything else is told as if nothing had happened.
const LINES: [&str; 4] = [
    "SELECT json_build_object('step', seq, 'kind', kind, 'turn', turn, 'content', content)::text
       FROM step ORDER BY seq",
    "SELECT json_build_object('call', call_idx, 'of', step_seq, 'id', call_id, 'name', name,
                'arguments', arguments, 'effect', effect, 'state', state, 'outcome', outcome)::text
       FROM tool_call ORDER BY step_seq, call_idx",
    "SELECT json_build_object('status', status, 'stop_reason', stop_reason, 'answer', answer,
                'steps', n_steps, 'turn', turn, 'input', usage_input, 'output', usage_output)::text
       FROM run",
    "SELECT json_build_object('event', name, 'data', data)::text
       FROM run_event WHERE name <> 'turn.restarted' ORDER BY seq",
];

/// The history of a database with one run: no attempts, no times, and call ids are numbered.
pub(crate) async fn history(db: &TestDb) -> Vec<String> {
    let mut connection = db.connect().await;
    let call_ids: Vec<String> =
        sqlx::query_scalar(CALL_IDS).fetch_all(&mut connection).await.unwrap();
    let mut lines: Vec<String> = Vec::new();
    for statement in LINES {
        let found: Vec<String> =
            sqlx::query_scalar(statement).fetch_all(&mut connection).await.unwrap();
        lines.extend(found.iter().map(|line| canonical(line, &call_ids)));
    }
    lines
}

fn canonical(line: &str, call_ids: &[String]) -> String {
    let numbered = (1..).zip(call_ids);
    let line =
        numbered.fold(line.to_owned(), |line, (n, id)| line.replace(id, &format!("call {n}")));
    let mut value: Value = serde_json::from_str(&line).unwrap();
    strip(&mut value);
    value.to_string()
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for name in ["attempt", "attempts", "started_at", "finished_at"] {
                members.remove(name);
            }
            members.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}
