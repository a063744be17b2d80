//! What must hold in every database at every moment, whatever happened to the servers.

use super::again::divergences;
use super::{FakeTools, TestDb};

/// A rule and the statement that finds what breaks it.
type Rule = (&'static str, &'static str);

const RULES: &[Rule] = &[
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
        "the steps of a thread are numbered 1..n, save those that were erased",
        "SELECT h.thread_id::text FROM (
             SELECT tenant_id, thread_id, seq FROM step
              UNION ALL
             SELECT g.tenant_id, g.thread_id, s.seq FROM thread_segment g
               JOIN step s ON (s.tenant_id, s.thread_id) = (g.tenant_id, g.source_id)
                          AND s.seq BETWEEN g.from_seq AND g.through_seq) h
          GROUP BY tenant_id, thread_id
         HAVING min(seq) < 1 OR count(*) <> count(DISTINCT seq) OR max(seq) - count(*) > (
                SELECT coalesce(sum(n_steps), 0) FROM tombstone t
                 WHERE (t.tenant_id, t.kind) = (h.tenant_id, 'run')
                   AND (t.thread_id = h.thread_id OR t.thread_id IN (
                        SELECT source_id FROM thread_segment g
                         WHERE (g.tenant_id, g.thread_id) = (h.tenant_id, h.thread_id))))",
    ),
    (
        "a fork has all that it shares, and what it shares is over",
        "SELECT t.thread_id::text FROM thread t
           JOIN (SELECT tenant_id, thread_id, sum(through_seq - from_seq + 1) AS n,
                        max(through_seq) AS last FROM thread_segment GROUP BY 1, 2) g
          USING (tenant_id, thread_id)
          WHERE g.last > t.forked_at OR t.forked_at <> g.n + (
                SELECT count(*) FROM step s
                 WHERE (s.tenant_id, s.thread_id) = (t.tenant_id, t.thread_id)
                   AND s.seq <= t.forked_at)
          UNION ALL
         SELECT c.call_id FROM thread_segment g
           JOIN tool_call c ON (c.tenant_id, c.thread_id) = (g.tenant_id, g.source_id)
                           AND c.step_seq BETWEEN g.from_seq AND g.through_seq
          WHERE c.state <> 'ended'",
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
        "what one write appended stands together, and no other write is taken for it",
        "SELECT op_id::text FROM step GROUP BY tenant_id, op_id
         HAVING count(DISTINCT thread_id) > 1
             -- The edits of a fork stand where what they replace stood.
             OR (count(run_id) > 0 AND max(seq) - min(seq) + 1 <> count(*))",
    ),
    (
        "a call has an outcome once it has ended, and not before",
        "SELECT concat(call_id, ' ', state) FROM tool_call
          WHERE (state = 'ended') <> (outcome IS NOT NULL)",
    ),
    (
        "nothing is written for a claim that is not yet",
        "SELECT r.run_id::text FROM run r
          WHERE r.epoch < (SELECT max(epoch) FROM step s
                            WHERE (s.tenant_id, s.run_id) = (r.tenant_id, r.run_id))
             OR r.epoch < (SELECT max(started_epoch) FROM tool_call c
                            WHERE (c.tenant_id, c.run_id) = (r.tenant_id, r.run_id))",
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
        "the runs of a thread follow each other",
        "SELECT concat(run_id, ' in ', other) FROM (
             SELECT s.run_id, lag(s.run_id) OVER w AS before, min(s.seq) OVER (
                        PARTITION BY s.tenant_id, s.run_id) AS first, s.seq,
                    lag(s.run_id) OVER w AS other
               FROM step s WINDOW w AS (PARTITION BY s.tenant_id, s.thread_id ORDER BY s.seq)) told
          WHERE run_id IS NOT NULL AND before IS DISTINCT FROM run_id AND seq <> first",
    ),
    (
        "a run that was rolled back was cancelled, or is about to be",
        "SELECT concat(run_id, ' ', status) FROM run
          WHERE rolled_back_at IS NOT NULL AND status <> 'cancelled' AND cancel_requested_at IS NULL",
    ),
    (
        "a cancelled run says what was stopped, and its calls agree",
        "SELECT concat(r.run_id, ' ', r.stopped) FROM run r
          WHERE r.status = 'cancelled'
            AND (r.stopped IS NULL OR EXISTS (
                SELECT FROM tool_call c
                 WHERE (c.tenant_id, c.run_id) = (r.tenant_id, r.run_id)
                   AND (r.stopped->'calls_not_started')::jsonb ? c.call_id
                   AND (c.attempt > 0 OR c.outcome->>'kind' <> 'cancelled')))",
    ),
    (
        "a run has a version of every skill that its agent names, numbered 1..n",
        "SELECT r.run_id::text FROM run r
           LEFT JOIN agent_version v
             ON (v.tenant_id, v.agent_id, v.version) = (r.tenant_id, r.agent_id, r.agent_version)
          WHERE (SELECT (count(*)::integer, coalesce(max(place), 0)) FROM run_skill p
                  WHERE (p.tenant_id, p.run_id) = (r.tenant_id, r.run_id))
             <> (SELECT (n, n) FROM (SELECT json_array_length(coalesce(
                    coalesce(r.inline_agent, v.spec)->'skills', '[]'))::integer AS n) named)",
    ),
    (
        "what the calls of a reply bring stands right behind it",
        "SELECT concat(s.thread_id, ' ', s.seq) FROM step s
          WHERE s.kind = 'tools' AND s.run_id IS NOT NULL AND s.turn > 0
            -- What servers have is told before a run has called anything.
            AND EXISTS (SELECT FROM step b
                         WHERE (b.tenant_id, b.thread_id, b.run_id, b.kind)
                             = (s.tenant_id, s.thread_id, s.run_id, 'action') AND b.seq < s.seq)
            AND NOT EXISTS (SELECT FROM step a
                             WHERE (a.tenant_id, a.thread_id, a.run_id, a.turn, a.seq, a.kind)
                                 = (s.tenant_id, s.thread_id, s.run_id, s.turn, s.seq - 1, 'action'))",
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
          WHERE CASE WHEN r.enqueued_task IS NULL
                     THEN (r.next_seq, r.n_steps) <> (SELECT max(seq) + 1, count(*) FROM step s
                              WHERE (s.tenant_id, s.run_id) = (r.tenant_id, r.run_id))
                     ELSE EXISTS (SELECT FROM step s
                              WHERE (s.tenant_id, s.run_id) = (r.tenant_id, r.run_id)) END",
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
             OR (count(e.seq) = 0
                 AND r.status NOT IN ('queued', 'running', 'requires_action'))",
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
    (
        "a run that waits has a reason, no lease, and a time to wake up by when its calls wait",
        "SELECT concat(r.run_id, ' ', r.status, ' ', r.wake_at) FROM run r
          WHERE CASE WHEN r.status = 'requires_action'
                     THEN r.requires_action IS NULL OR r.lease_token IS NOT NULL
                          OR r.wake_at > (SELECT min(c.wait_until) FROM tool_call c
                                           WHERE (c.tenant_id, c.run_id) = (r.tenant_id, r.run_id)
                                             AND c.state = 'waiting')
                          OR (r.wake_at IS NULL
                              AND r.requires_action->>'reason' <> 'budget_exhausted')
                     ELSE r.wake_at IS NOT NULL END",
    ),
    (
        "a run that waits names exactly the calls that wait for a caller, or has no budget",
        "SELECT concat(r.run_id, ' ', r.requires_action::text) FROM run r
          WHERE r.status = 'requires_action'
            AND (SELECT coalesce(string_agg(concat(c.call_id, ' ', c.waits_for), ','
                                            ORDER BY c.call_idx), '')
                   FROM tool_call c
                  WHERE (c.tenant_id, c.run_id) = (r.tenant_id, r.run_id)
                    AND c.state = 'waiting' AND c.waits_for <> 'sub_runs')
             IS DISTINCT FROM
                (SELECT coalesce(
                        string_agg(concat(w->>'tool_call_id', ' ', w->>'reason'), ','), '')
                   FROM json_array_elements(coalesce(r.requires_action->'tool_calls', '[]')) w)",
    ),
    (
        "a run that waits names exactly the sub-runs that it waits for",
        "SELECT concat(r.run_id, ' ', r.requires_action::text) FROM run r
          WHERE r.requires_action IS NOT NULL
            AND (SELECT coalesce(string_agg(c.call_id, ',' ORDER BY c.call_idx), '')
                   FROM tool_call c
                  WHERE (c.tenant_id, c.run_id) = (r.tenant_id, r.run_id)
                    AND c.waits_for = 'sub_runs')
             IS DISTINCT FROM
                (SELECT coalesce(string_agg(w->>'tool_call_id', ','), '')
                   FROM json_array_elements(coalesce(r.requires_action->'sub_runs', '[]')) w)",
    ),
    (
        "a run that waits for nothing but sub-runs goes on by itself, at the latest when the wait is over",
        "SELECT concat(r.run_id, ' ', r.status, ' ', r.available_at) FROM run r
          WHERE r.requires_action->>'reason' = 'sub_runs'
            AND CASE r.status
                WHEN 'queued' THEN r.available_at = 'infinity'
                WHEN 'running' THEN false
                ELSE true END",
    ),
    (
        "a call that waits for a sub-run has one that is active, or its answer",
        "SELECT concat(c.run_id, ' ', c.call_id, ' ', s.status) FROM tool_call c
           LEFT JOIN run s
             ON (s.tenant_id, s.parent_run_id, s.parent_call_id)
              = (c.tenant_id, c.run_id, c.call_id)
          WHERE c.waits_for = 'sub_runs'
            AND coalesce(s.status, '') NOT IN ('queued', 'running', 'requires_action')
            AND NOT EXISTS (SELECT FROM call_answer a
                             WHERE (a.tenant_id, a.run_id, a.call_id, a.waits_for)
                                 = (c.tenant_id, c.run_id, c.call_id, 'sub_runs'))",
    ),
    (
        "a sub-run has the id of its call, and was started for all that its parent was and for it",
        "SELECT s.run_id::text FROM run s
           JOIN run p ON (p.tenant_id, p.run_id) = (s.tenant_id, s.parent_run_id)
          WHERE s.ancestors <> p.ancestors || p.run_id
             OR s.parent_call_id <> 'call_' || replace(s.run_id::text, '-', '')
             OR s.thread_id = p.thread_id OR s.key_id IS DISTINCT FROM p.key_id",
    ),
    (
        "a sub-run is not active for a run that has ended, unless its end was told before",
        "SELECT concat(s.run_id, ' ', s.status, ' of ', p.status) FROM run s
           JOIN run p ON (p.tenant_id, p.run_id) = (s.tenant_id, s.parent_run_id)
          WHERE s.status IN ('queued', 'running', 'requires_action')
            AND p.status NOT IN ('queued', 'running', 'requires_action')
            AND s.cancel_requested_at IS NULL
            AND NOT EXISTS (SELECT FROM call_answer a
                             WHERE (a.tenant_id, a.run_id, a.call_id, a.waits_for)
                                 = (p.tenant_id, p.run_id, s.parent_call_id, 'sub_runs'))",
    ),
    (
        "what a sub-run holds of a budget it holds of that of every run that it was started for",
        "SELECT concat(d.run_id, ' ', d.resource) FROM budget_draw d
           JOIN run s USING (tenant_id, run_id)
           JOIN budget b ON b.tenant_id = s.tenant_id AND b.scope = 'run'
                        AND b.owner_id = ANY (s.ancestors) AND b.resource = d.resource
           LEFT JOIN budget_draw o
             ON (o.tenant_id, o.run_id, o.scope, o.owner_id, o.resource)
              = (s.tenant_id, s.run_id, 'run', b.owner_id, b.resource)
          WHERE d.reserved > 0 AND o.reserved IS DISTINCT FROM d.reserved",
    ),
    (
        "an answer is to a call of its run that had been started as often, and is counted",
        "SELECT concat(a.run_id, ' ', a.call_id, ' ', a.waits_for) FROM call_answer a
           JOIN run r ON (r.tenant_id, r.run_id) = (a.tenant_id, a.run_id)
           LEFT JOIN tool_call c
             ON (c.tenant_id, c.run_id, c.call_id) = (a.tenant_id, a.run_id, a.call_id)
          WHERE c.call_id IS NULL OR a.attempt > c.attempt
             OR r.n_answers <> (SELECT count(*) FROM call_answer n
                                 WHERE (n.tenant_id, n.run_id) = (r.tenant_id, r.run_id))",
    ),
    (
        "nothing waits for an answer that was given",
        "SELECT concat(c.run_id, ' ', c.call_id) FROM tool_call c
           JOIN run r ON (r.tenant_id, r.run_id) = (c.tenant_id, c.run_id)
           JOIN call_answer a
             ON (a.tenant_id, a.run_id, a.call_id, a.waits_for, a.attempt)
              = (c.tenant_id, c.run_id, c.call_id, c.waits_for, c.attempt)
          WHERE r.status = 'requires_action'",
    ),
    (
        "a call that needs approval is started only with it",
        "SELECT concat(c.run_id, ' ', c.call_id) FROM tool_call c
          WHERE c.wait_rules->>'approval' = 'true' AND c.attempt > 0
            AND NOT EXISTS (SELECT 1 FROM call_answer a
                             WHERE (a.tenant_id, a.run_id, a.call_id)
                                 = (c.tenant_id, c.run_id, c.call_id)
                               AND a.answer->>'answer' = 'approved')",
    ),
    (
        "a call that must not run twice is started again only because someone says so",
        "SELECT concat(c.run_id, ' ', c.call_id, ' ', c.attempt) FROM tool_call c
          WHERE c.effect = 'at_most_once'
            AND coalesce(c.wait_rules->>'on_in_doubt', '') <> 'probe'
            AND c.attempt > 1 + (SELECT count(*) FROM call_answer a
                                  WHERE (a.tenant_id, a.run_id, a.call_id)
                                      = (c.tenant_id, c.run_id, c.call_id)
                                    AND a.answer->>'answer' = 'retry')",
    ),
    (
        "an end of a run that an endpoint is told of is in the outbox",
        "SELECT concat(e.run_id, ' ', e.name, ' ', w.webhook_id) FROM run_event e
           JOIN run r ON (r.tenant_id, r.run_id) = (e.tenant_id, e.run_id)
           JOIN webhook w
             ON w.tenant_id = e.tenant_id AND w.disabled_at IS NULL AND w.updated_at = w.created_at
            AND w.created_at < e.created_at - interval '1 second'
            AND e.name = ANY (w.events) AND (w.all_runs OR w.webhook_id = r.webhook_id)
           LEFT JOIN webhook_delivery d
             ON (d.tenant_id, d.webhook_id, d.run_id, d.event_seq, d.event)
              = (e.tenant_id, w.webhook_id, e.run_id, e.seq, e.name)
          WHERE d.delivery_id IS NULL",
    ),
    (
        "an idempotency key leads to what was made or moved on under it",
        "SELECT concat(i.route, ' ', i.key) FROM idempotency i
          WHERE CASE
                WHEN i.route IN ('POST /v1/runs', 'POST /v1/runs/stream',
                                 'POST /v1/runs/{run_id}/messages')
                THEN NOT EXISTS (SELECT FROM run r
                                  WHERE (r.tenant_id, r.run_id) = (i.tenant_id, i.run_id))
                WHEN i.route IN ('POST /v1/threads', 'POST /v1/threads/{thread_id}/fork')
                THEN NOT EXISTS (SELECT FROM thread t
                                  WHERE (t.tenant_id, t.thread_id) = (i.tenant_id, i.run_id))
                WHEN i.route LIKE 'POST /v1/keys%'
                THEN NOT EXISTS (SELECT FROM api_key k
                                  WHERE (k.tenant_id, k.key_id) = (i.tenant_id, i.run_id))
                WHEN i.route = 'POST /v1/agents'
                THEN NOT EXISTS (SELECT FROM agent a
                                  WHERE (a.tenant_id, a.agent_id) = (i.tenant_id, i.run_id))
                ELSE false END
             OR (i.route = 'POST /v1/runs/{run_id}/messages')
                <> EXISTS (SELECT FROM run_message m
                            WHERE (m.tenant_id, m.run_id, m.number)
                                = (i.tenant_id, i.run_id, i.number))",
    ),
    (
        "the tools that a run was given are those of a run on its thread",
        "SELECT p.run_id::text FROM run_pin p
           JOIN run r USING (tenant_id, run_id)
          WHERE p.thread_id <> r.thread_id OR r.started_at IS NULL",
    ),
    (
        "a run that uses tools of servers was given them before it asked a model",
        "SELECT r.run_id::text FROM run r
           LEFT JOIN agent_version v USING (tenant_id, agent_id)
          WHERE (v.version IS NULL OR v.version = r.agent_version)
            AND coalesce(r.inline_agent, v.spec)::jsonb -> 'tools' @> '[{\"kind\": \"mcp\"}]'
            AND EXISTS (SELECT 1 FROM step s
                         WHERE (s.tenant_id, s.run_id, s.kind) = (r.tenant_id, r.run_id, 'action'))
            AND NOT EXISTS (SELECT 1 FROM run_pin p
                             WHERE (p.tenant_id, p.run_id) = (r.tenant_id, r.run_id))",
    ),
    (
        "the newest version of an item is stored, and has a value where the item has one",
        "SELECT concat(i.tenant_id, ' ', i.namespace, ' ', i.key) FROM memory_item i
           LEFT JOIN memory_item_version v USING (tenant_id, namespace, key, version)
          WHERE v.version IS NULL
             OR (i.document IS NULL) <> (v.value IS NULL)
             OR i.document IS NULL AND (i.words IS NOT NULL OR i.embedding IS NOT NULL)",
    ),
    (
        "no version of an item is ahead of it",
        "SELECT concat(v.tenant_id, ' ', v.namespace, ' ', v.key, ' ', v.version)
           FROM memory_item_version v
           JOIN memory_item i USING (tenant_id, namespace, key)
          WHERE v.version > i.version",
    ),
    (
        "what a tool says that it has put was put by its call, or was forgotten since",
        "SELECT c.call_id FROM tool_call c
           JOIN memory_item_version v ON (v.tenant_id, v.call_id) = (c.tenant_id, c.call_id)
          WHERE c.name <> 'memory_put'
             OR c.outcome->>'kind' = 'success'
                AND (c.outcome->'output'->'json'->>'version')::integer <> v.version",
    ),
    (
        // A reply that came too late for its run was paid for: it is among the calls and not in the run.
        "a run took no more than its calls took",
        "SELECT r.run_id::text FROM run r
           LEFT JOIN (SELECT tenant_id, run_id, sum(input) AS input, sum(output) AS output,
                             sum(cache_read) AS cache_read, sum(cache_write) AS cache_write,
                             sum(reasoning) AS reasoning
                        FROM model_usage GROUP BY 1, 2) u
             ON (u.tenant_id, u.run_id) = (r.tenant_id, r.run_id)
          WHERE r.usage_input > coalesce(u.input, 0)
             OR r.usage_output > coalesce(u.output, 0)
             OR r.usage_cache_read > coalesce(u.cache_read, 0)
             OR r.usage_cache_write > coalesce(u.cache_write, 0)
             OR r.usage_reasoning > coalesce(u.reasoning, 0)",
    ),
    (
        "what was erased is not there",
        "SELECT concat(t.kind, ' ', t.id) FROM tombstone t
          WHERE EXISTS (SELECT 1 FROM thread h
                         WHERE (h.tenant_id, h.thread_id, 'thread') = (t.tenant_id, t.id, t.kind))
             OR EXISTS (SELECT 1 FROM run r
                         WHERE (r.tenant_id, r.run_id, 'run') = (t.tenant_id, t.id, t.kind))",
    ),
];

/// Panics with every rule that a database breaks, and by which rows.
#[track_caller]
pub(crate) fn assert_none(broken: &[String]) {
    assert!(broken.is_empty(), "broken:\n{}", broken.join("\n"));
}

/// Checks every rule, and drives every run again that has ended: each request that it made is made again,
/// byte for byte.
pub(crate) async fn assert_invariants(db: &TestDb) {
    assert_rules(db).await;
    assert_none(&divergences(db).await);
}

async fn assert_rules(db: &TestDb) {
    let mut connection = db.connect().await;
    let mut broken = Vec::new();
    for &(rule, statement) in RULES {
        let rows: Vec<String> =
            sqlx::query_scalar(statement).fetch_all(&mut connection).await.unwrap();
        if !rows.is_empty() {
            broken.push(format!("{rule}: {}", rows.join(", ")));
        }
    }
    assert_none(&broken);
}

/// Checks what the tools saw against what is on record: a call that must not run twice was seen once at
/// most, and one that succeeded was seen.
pub(crate) async fn assert_called(db: &TestDb, tools: &FakeTools) {
    let seen = tools.seen();
    let times = |id: &str| seen.iter().filter(|call| call.key == id).count();
    let calls: Vec<(String, String, Option<String>)> =
        sqlx::query_as("SELECT call_id, effect, outcome->>'kind' FROM tool_call WHERE attempt > 0")
            .fetch_all(&mut db.connect().await)
            .await
            .unwrap();
    let mut broken = Vec::new();
    for (id, effect, kind) in &calls {
        let n = times(id);
        if (effect == "at_most_once" && n > 1) || (kind.as_deref() == Some("success") && n == 0) {
            broken.push(format!("{id}, {effect}, {kind:?}, was seen {n} times"));
        }
    }
    let known = |key: &String| calls.iter().any(|(id, ..)| id == key);
    broken.extend(seen.iter().map(|call| &call.key).filter(|key| !known(key)).cloned());
    assert_none(&broken);
}
