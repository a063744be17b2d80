//! What must hold in every database at every moment, whatever happened to the servers.

use super::TestDb;

/// A rule and the statement that finds what breaks it.
type Rule = (&'static str, &'static str);

const RULES: [Rule; 24] = [
    (
        "what is set aside of a budget is what runs hold of it",
        "SELECT concat(b.scope, ' ', b.owner_id, ' ', b.resource) FROM budget b
           LEFT JOIN budget_draw d USING (tenant_id, scope, owner_id, resource)
          GROUP BY b.tenant_id, b.scope, b.owner_id, b.resource
         HAVING b.reserved <> coalesce(sum(d.reserved), 0)",
    ),
    (
        "what runs spent of a budget is used of it",
        "SELECT concat(b.scope, ' ', b.owner_id, ' ', b.resource) FROM budget b
           JOIN budget_draw d USING (tenant_id, scope, owner_id, resource)
          WHERE b.period = 'total'
          GROUP BY b.tenant_id, b.scope, b.owner_id, b.resource
         HAVING b.used + b.overrun < sum(d.spent)",
    ),
    (
        "only a run that is under way has anything of a budget set aside",
        "SELECT concat(d.run_id, ' ', r.status, ' ', d.resource) FROM budget_draw d
           JOIN run r USING (tenant_id, run_id)
          WHERE d.reserved > 0 AND r.status NOT IN ('queued', 'running', 'requires_action')",
    ),
    (
        "a run that waits for a budget says for what of it",
        "SELECT r.run_id::text FROM run r
          WHERE r.status = 'requires_action'
            AND r.requires_action->>'reason' = 'budget_exhausted'
            AND NOT EXISTS (SELECT 1 FROM budget_wait w
                             WHERE (w.tenant_id, w.run_id) = (r.tenant_id, r.run_id))",
    ),
    (
        "the steps of a thread are numbered 1..n",
        "SELECT thread_id::text FROM step GROUP BY tenant_id, thread_id
         HAVING min(seq) <> 1 OR max(seq) <> count(*)",
    ),
    (
        "the events of a run are numbered 1..n",
        "SELECT run_id::text FROM run_event GROUP BY tenant_id, run_id
         HAVING min(seq) <> 1 OR max(seq) <> count(*)",
    ),
    (
        "a turn has one step of a kind, besides the messages that enter after it",
        "SELECT concat(run_id, ' turn ', turn, ' ', kind) FROM step s WHERE run_id IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM run_message m
                             WHERE (m.tenant_id, m.run_id, m.step_seq)
                                 = (s.tenant_id, s.run_id, s.seq))
          GROUP BY tenant_id, run_id, turn, kind HAVING count(*) > 1",
    ),
    (
        "the last event of an ended run says how it ended",
        "SELECT concat(r.run_id, ' ', r.status) FROM run r
          WHERE r.status NOT IN ('queued', 'running')
            AND 'run.' || r.status IS DISTINCT FROM (
                SELECT name FROM run_event e
                 WHERE (e.tenant_id, e.run_id) = (r.tenant_id, r.run_id)
                 ORDER BY seq DESC LIMIT 1)",
    ),
    (
        "nothing follows the end of a run, save its being resumed",
        "SELECT concat(e.run_id, ' ', e.name, ' before ', later.name)
           FROM run_event e
           JOIN run_event later
             ON (later.tenant_id, later.run_id, later.seq) = (e.tenant_id, e.run_id, e.seq + 1)
          WHERE e.name IN ('run.completed', 'run.failed', 'run.cancelled', 'run.interrupted')
            AND (e.name, later.name) <> ('run.interrupted', 'run.resumed')",
    ),
    (
        "every call of an ended run has ended",
        "SELECT concat(c.call_id, ' ', c.state) FROM tool_call c
           JOIN run r ON (r.tenant_id, r.run_id) = (c.tenant_id, c.run_id)
          WHERE c.state <> 'ended' AND r.status NOT IN ('queued', 'running', 'requires_action')",
    ),
    (
        "a reply that was heard to its end has its request in figures, and no other step has",
        "SELECT concat(s.thread_id, ' ', s.seq) FROM step s
           FULL JOIN (SELECT * FROM model_request
                       WHERE purpose = 'reply' AND step_seq IS NOT NULL) q
             ON (q.tenant_id, q.thread_id, q.step_seq) = (s.tenant_id, s.thread_id, s.seq)
          WHERE (s.request_sha256, s.request_bytes) IS DISTINCT FROM (q.sha256, q.bytes)
            AND (s.request_sha256 IS NOT NULL OR q.request_id IS NOT NULL)",
    ),
    (
        "an attempt at a turn or at its summary has one request at most",
        "SELECT concat(run_id, ' ', turn, ' ', attempt, ' ', purpose) FROM model_request
          WHERE run_id IS NOT NULL
          GROUP BY tenant_id, run_id, turn, attempt, purpose HAVING count(*) > 1",
    ),
    (
        "a request is stored onto one of its own thread",
        "SELECT q.request_id::text FROM model_request q
           JOIN model_request b ON (b.tenant_id, b.request_id) = (q.tenant_id, q.base_id)
          WHERE b.thread_id <> q.thread_id OR b.head IS NULL",
    ),
    (
        "an outcome answers its own call",
        "SELECT call_id FROM tool_call WHERE outcome->>'tool_call_id' <> call_id",
    ),
    (
        "a call in a reply has one row, and a row one call",
        "SELECT concat(s.thread_id, ' ', s.seq) FROM step s
          WHERE s.kind = 'action' AND s.run_id IS NOT NULL
            AND (SELECT count(*) FROM json_array_elements(s.content->'reply'->'parts') part
                  WHERE part->>'part_kind' = 'tool_call')
             <> (SELECT count(*) FROM tool_call c
                  WHERE (c.tenant_id, c.thread_id, c.step_seq) = (s.tenant_id, s.thread_id, s.seq))",
    ),
    (
        "a lease belongs to a running run, and a running run has one",
        "SELECT concat(r.run_id, ' ', r.status) FROM run r
           FULL JOIN run_lease l USING (tenant_id, run_id, lease_token)
          WHERE (r.status = 'running') IS DISTINCT FROM (l.expires_at IS NOT NULL)",
    ),
    (
        "epochs never go back",
        "SELECT run_id::text FROM (
             SELECT run_id, epoch, lag(epoch) OVER (PARTITION BY tenant_id, run_id ORDER BY seq)
                    AS before
               FROM step WHERE run_id IS NOT NULL) numbered
          WHERE epoch < before",
    ),
    (
        "a run knows where its events end",
        "SELECT r.run_id::text FROM run r
          WHERE r.next_event_seq <> (SELECT max(seq) + 1 FROM run_event e
                                      WHERE (e.tenant_id, e.run_id) = (r.tenant_id, r.run_id))",
    ),
    (
        "a run knows where its steps end, and counts them",
        "SELECT r.run_id::text FROM run r
          WHERE (r.next_seq, r.n_steps) <> (SELECT max(seq) + 1, count(*) FROM step s
                                             WHERE (s.tenant_id, s.run_id) = (r.tenant_id, r.run_id))",
    ),
    (
        "a run counts its messages, which are numbered 1..n, and those that have entered it",
        "SELECT concat(r.run_id, ' ', r.n_messages, ' ', r.n_messages_taken) FROM run r
           LEFT JOIN run_message m ON (m.tenant_id, m.run_id) = (r.tenant_id, r.run_id)
          GROUP BY r.tenant_id, r.run_id
         HAVING (r.n_messages, r.n_messages_taken) <> (count(m.number), count(m.step_seq))
             OR coalesce(max(m.number), 0) <> count(m.number)
             OR coalesce(max(m.number) FILTER (WHERE m.step_seq IS NOT NULL), 0)
                <> count(m.step_seq)",
    ),
    (
        "a message that has entered a run is a step of it as it was said, in order",
        "SELECT concat(m.run_id, ' message ', m.number) FROM (
             SELECT *, lag(step_seq) OVER (PARTITION BY tenant_id, run_id ORDER BY number)
                    AS before FROM run_message) m
           LEFT JOIN step s
             ON (s.tenant_id, s.run_id, s.seq) = (m.tenant_id, m.run_id, m.step_seq)
          WHERE m.step_seq <= m.before
             OR (m.step_seq IS NOT NULL AND m.text IS DISTINCT FROM
                 CASE WHEN m.voice = 'user' AND s.kind = 'task'
                           THEN s.content->'parts'->0->>'text'
                      WHEN m.voice = 'system' AND s.kind = 'system' THEN s.content->>'text' END)",
    ),
    (
        "a run that was told something has a turn after it, and so a completed run has heard all",
        "SELECT concat(m.run_id, ' message ', m.number) FROM run_message m
           JOIN run r ON (r.tenant_id, r.run_id) = (m.tenant_id, m.run_id)
           LEFT JOIN step s
             ON (s.tenant_id, s.run_id, s.seq) = (m.tenant_id, m.run_id, m.step_seq)
          WHERE (m.step_seq IS NULL AND r.status = 'completed') OR s.turn >= r.turn",
    ),
    (
        "a step is recorded once, and every step of an ended run is",
        "SELECT concat(s.run_id, ' ', s.seq) FROM step s
           JOIN run r ON (r.tenant_id, r.run_id) = (s.tenant_id, s.run_id)
           LEFT JOIN run_event e
             ON (e.tenant_id, e.run_id) = (s.tenant_id, s.run_id)
            AND e.name = 'step.recorded' AND (e.data->'step'->>'step_seq')::bigint = s.seq
          GROUP BY s.tenant_id, s.run_id, s.seq, r.status
         HAVING count(e.seq) > 1
             OR (count(e.seq) = 0 AND r.status NOT IN ('queued', 'running', 'requires_action'))",
    ),
    (
        "a call is told once and then its result once, and both before the run has ended",
        "SELECT concat(told.run_id, ' ', told.call_id, ' ', told.names) FROM (
             SELECT c.tenant_id, c.run_id, c.call_id, c.name,
                    coalesce(string_agg(e.name, ' ' ORDER BY e.seq), '') AS names
               FROM tool_call c
               LEFT JOIN run_event e
                 ON (e.tenant_id, e.run_id) = (c.tenant_id, c.run_id)
                AND e.name IN ('tool.call', 'tool.result')
                AND (e.data->'call'->>'step_seq')::bigint = c.step_seq
                AND (e.data->'call'->>'call_idx')::integer = c.call_idx
              GROUP BY c.tenant_id, c.run_id, c.call_id, c.name) told
           JOIN run r ON (r.tenant_id, r.run_id) = (told.tenant_id, told.run_id)
          WHERE CASE WHEN told.name = 'final_answer' THEN told.names <> ''
                     WHEN r.status IN ('queued', 'running', 'requires_action')
                          THEN told.names NOT IN ('tool.call', 'tool.call tool.result')
                     ELSE told.names <> 'tool.call tool.result' END",
    ),
];

/// Panics with every rule that a database breaks, and by which rows.
#[track_caller]
pub(crate) fn assert_none(broken: &[String]) {
    assert!(broken.is_empty(), "broken:\n{}", broken.join("\n"));
}

/// Checks every rule.
pub(crate) async fn assert_invariants(db: &TestDb) {
    let mut connection = db.connect().await;
    let mut broken = Vec::new();
    for (rule, statement) in RULES {
        let rows: Vec<String> =
            sqlx::query_scalar(statement).fetch_all(&mut connection).await.unwrap();
        if !rows.is_empty() {
            broken.push(format!("{rule}: {}", rows.join(", ")));
        }
    }
    assert_none(&broken);
}
