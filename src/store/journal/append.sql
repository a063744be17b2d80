-- The guarded append: one statement, so one commit; nothing of it happens unless all of it may.
--
-- $1 tenant   $2 run   $3 lease token   $4 expected next_seq   $5 expected next_event_seq
-- $6 op id    $7 epoch $8 now           $9 goes through despite a cancel
-- $78 the op id of the append before   $79 what the cancel stopped   $80 the tools it is given
-- $81 the least format   $82 the servers whose tools it does without
WITH guard AS (
    UPDATE run
       SET status = $10,
           stop_reason = $11,
           answer = $12,
           output = ($13::text)::json,
           failure = ($14::text)::json,
           usage_input = $15,
           usage_output = $16,
           usage_cache_read = $17,
           usage_cache_write = $18,
           usage_reasoning = $19,
           n_steps = $20,
           turn = $21,
           attempt = $22,
           finished_at = $23,
           closing = $24,
           n_messages_taken = $50,
           redactions = ($54::text)::json,
           unavailable_servers = ($82::text)::json,
           cost = $77,
           requires_action = ($64::text)::json,
           stopped = ($79::text)::json,
           -- Waits that began before have their end in their rows; those that begin now are in $65.
           wake_at = CASE WHEN $10 = 'requires_action' THEN least(
               deadline_at,
               now() + $65::bigint * interval '1 millisecond',
               (SELECT min(c.wait_until)
                  FROM tool_call c
                 WHERE c.tenant_id = $1
                   AND c.run_id = $2
                   AND c.state = 'waiting'
                   AND c.call_id <> ALL ($34::text[]))) END,
           -- A run that waits for nothing but its sub-runs is queued: it goes on by itself.
           available_at = CASE WHEN $10 = 'queued' THEN least(
               coalesce(deadline_at, 'infinity'),
               now() + $65::bigint * interval '1 millisecond',
               (SELECT min(c.wait_until)
                  FROM tool_call c
                 WHERE c.tenant_id = $1
                   AND c.run_id = $2
                   AND c.state = 'waiting'
                   AND c.call_id <> ALL ($34::text[]))) ELSE available_at END,
           format = greatest(format, $81),
           claims_since_progress = CASE WHEN $25 THEN 0 ELSE claims_since_progress END,
           lease_token = CASE WHEN $10 = 'running' THEN lease_token END,
           resumed = false,
           op_id = $6,
           next_seq = next_seq + cardinality($26::uuid[]),
           next_event_seq = next_event_seq + cardinality($32::text[])
     WHERE tenant_id = $1
       AND run_id = $2
       AND status = 'running'
       -- The lease: another worker's claim changes the token.
       AND lease_token = $3
       -- The compare-and-set: an append that landed without its writer knowing moves these on, and a
       -- writer that waited for its row lock sees the new values.
       AND next_seq = $4
       AND next_event_seq = $5
       AND op_id = $78
       AND (cancel_requested_at IS NULL OR $9)
       -- No turn begins and no run is completed past a message. The count stands in this row because
       -- of those who wait for its lock: they see its columns as they are then, while a subquery
       -- would still tell what there was when the statement began.
       AND (n_messages = $50 OR NOT $51)
       -- Nor does it begin to wait, nor a call wait no more, past an answer; nor past a wish to stop.
       AND (n_answers = $66 OR ($10 NOT IN ('requires_action', 'queued') AND 'waiting' <> ALL ($35::text[])))
       AND ($10 NOT IN ('requires_action', 'queued') OR interrupt_requested_at IS NULL)
       -- Nor does anything go past a budget that was set since.
       AND (NOT budgeted OR $76)
       -- Every call is where the writer believes it to be.
       AND cardinality($34::text[]) = (
           SELECT count(*)
             FROM tool_call c
             JOIN unnest($34::text[], $35::text[]) AS believed(call_id, state)
               ON c.call_id = believed.call_id
              AND c.state = believed.state
            WHERE c.tenant_id = $1
              AND c.run_id = $2)
 RETURNING tenant_id, run_id, thread_id, agent_id, key_id, webhook_id, ancestors, ancestor_owners
), new_step AS (
    INSERT INTO step (tenant_id, thread_id, seq, step_id, run_id, turn, attempt, kind, op_id, epoch,
                      content, request_bytes, request_shared_bytes, request_sha256,
                      request_difference, created_at)
    SELECT g.tenant_id, g.thread_id, $4 + s.place - 1, s.step_id, g.run_id, s.turn, s.attempt, s.kind,
           $6, $7, s.content::json, s.request_bytes, s.shared_bytes, s.sha256, s.difference::json, $8
      FROM guard g,
           unnest($26::uuid[], $27::integer[], $28::integer[], $29::text[], $30::text[],
                  $55::bigint[], $56::bigint[], $57::bytea[], $31::text[])
               WITH ORDINALITY AS s(step_id, turn, attempt, kind, content, request_bytes,
                                    shared_bytes, sha256, difference, place)
), new_request AS (
    -- A request that was not recorded when it failed goes with the next append.
    INSERT INTO model_request (tenant_id, request_id, thread_id, run_id, step_seq, turn, attempt, purpose,
                               provider, endpoint, header_names, profile, renderer, sent_at,
                               first_byte_ms, took_ms, status, outcome, error, response,
                               response_encoding, response_type, sha256, bytes, base_id, head_shared,
                               head, head_encoding, conversation_shared, conversation,
                               conversation_encoding, spans)
    SELECT g.tenant_id, q.request_id, g.thread_id, g.run_id, q.step_seq, q.turn, q.attempt, q.purpose, q.provider,
           q.endpoint, q.header_names, q.profile, q.renderer, q.sent_at, q.first_byte_ms, q.took_ms,
           q.status, q.outcome, q.error, q.response, q.response_encoding, q.response_type, q.sha256,
           q.bytes, q.base_id, q.head_shared, q.head, q.head_encoding, q.conversation_shared,
           q.conversation, q.conversation_encoding, q.spans
      FROM guard g,
           ROWS FROM (
               json_to_recordset(($58::text)::json) AS (
                   request_id uuid, step_seq bigint, turn integer, attempt integer, purpose text,
                   provider text, endpoint text, header_names json, profile json, renderer integer,
                   sent_at timestamptz, first_byte_ms bigint, took_ms bigint, status integer,
                   outcome text, error text, response_encoding text, response_type text, bytes bigint,
                   base_id uuid, head_shared bigint, head_encoding text, conversation_shared bigint,
                   conversation_encoding text),
               unnest($59::bytea[], $60::bytea[], $61::bytea[], $62::bytea[], $63::bytea[])
           ) AS q(request_id, step_seq, turn, attempt, purpose, provider, endpoint, header_names, profile,
                  renderer, sent_at, first_byte_ms, took_ms, status, outcome, error, response_encoding,
                  response_type, bytes, base_id, head_shared, head_encoding, conversation_shared,
                  conversation_encoding, sha256, response, head, conversation, spans)
), new_usage AS (
    INSERT INTO model_usage (tenant_id, request_id, run_id, agent_id, key_id, sent_at, provider, model,
                             input, output, cache_read, cache_write, reasoning, cost)
    SELECT g.tenant_id, u.request_id, g.run_id, g.agent_id, g.key_id, u.sent_at, u.provider, u.model,
           u.input, u.output, u.cache_read, u.cache_write, u.reasoning, u.cost
      FROM guard g,
           json_to_recordset(($58::text)::json) AS u (
               request_id uuid, sent_at timestamptz, provider text, model text, input bigint,
               output bigint, cache_read bigint, cache_write bigint, reasoning bigint, cost bigint)
     WHERE u.input IS NOT NULL
), new_event AS (
    INSERT INTO run_event (tenant_id, run_id, seq, name, data, created_at)
    SELECT g.tenant_id, g.run_id, $5 + e.place - 1, e.name, e.data::json, $8
      FROM guard g, unnest($32::text[], $33::text[]) WITH ORDINALITY AS e(name, data, place)
), outbox AS (
    -- What endpoints are to be told is written with the event itself.
    INSERT INTO webhook_delivery (tenant_id, webhook_id, run_id, event_seq, delivery_id, event, state,
                                  due_at, created_at)
    SELECT g.tenant_id, w.webhook_id, g.run_id, $5 + e.place - 1,
           substr(encode(sha256(convert_to(
               concat_ws(' ', w.webhook_id, g.run_id, $5 + e.place - 1), 'UTF8')), 'hex'), 1, 32)::uuid,
           e.name, 'pending', now(), $8
      FROM guard g
     CROSS JOIN unnest($32::text[]) WITH ORDINALITY AS e(name, place)
      JOIN webhook w
        ON w.tenant_id = g.tenant_id
       AND w.disabled_at IS NULL
       AND (w.all_runs OR w.webhook_id = g.webhook_id)
       AND e.name = ANY (w.events)
), moved_call AS (
    UPDATE tool_call c
       SET state = m.state,
           attempt = m.attempt,
           started_epoch = CASE WHEN m.state = 'started' THEN $7 ELSE c.started_epoch END,
           waits_for = m.waits_for,
           wait_until = now() + m.wait_ms * interval '1 millisecond',
           approved = m.approved,
           sent_arguments = m.sent_arguments,
           outcome = m.outcome::json
      FROM guard g,
           unnest($34::text[], $36::text[], $37::integer[], $38::text[], $67::text[], $68::bigint[],
                  $69::boolean[], $70::text[])
               AS m(call_id, state, attempt, outcome, waits_for, wait_ms, approved, sent_arguments)
     WHERE c.tenant_id = g.tenant_id
       AND c.run_id = g.run_id
       AND c.call_id = m.call_id
), new_call AS (
    INSERT INTO tool_call (tenant_id, thread_id, step_seq, call_idx, run_id, call_id, name, arguments,
                           effect, parallel_safe, unparsable, state, attempt, started_epoch, outcome,
                           wait_rules, waits_for, wait_until)
    SELECT g.tenant_id, g.thread_id, n.step_seq, n.call_idx, g.run_id, n.call_id, n.name, n.arguments,
           n.effect, n.parallel_safe, n.unparsable, n.state, n.attempt,
           CASE WHEN n.attempt > 0 THEN $7 END, n.outcome::json, n.wait_rules::json, n.waits_for,
           now() + n.wait_ms * interval '1 millisecond'
      FROM guard g,
           unnest($39::bigint[], $40::integer[], $41::text[], $42::text[], $43::text[], $44::text[],
                  $45::boolean[], $46::boolean[], $47::text[], $48::integer[], $49::text[],
                  $71::text[], $72::text[], $73::bigint[])
               AS n(step_seq, call_idx, call_id, name, arguments, effect, parallel_safe, unparsable,
                    state, attempt, outcome, wait_rules, waits_for, wait_ms)
), taken AS (
    UPDATE run_message m
       SET step_seq = t.step_seq
      FROM guard g, unnest($52::integer[], $53::bigint[]) AS t(number, step_seq)
     WHERE m.tenant_id = g.tenant_id
       AND m.run_id = g.run_id
       AND m.number = t.number
), draw AS (
    -- Budgets are locked behind the run and in one order, so that no two appends wait for each other.
    -- Where nothing is said of it, what is held of one stays held, and all of it was spent. What only
    -- puts down what was used holds no more after it than before.
    SELECT g.run_id, b.tenant_id, b.scope, b.owner_id, b.resource,
           coalesce(h.reserved, 0) AS held,
           CASE WHEN a.strict THEN coalesce(a.target, h.reserved, 0)
                ELSE least(coalesce(a.target, h.reserved, 0), coalesce(h.reserved, 0)) END AS target,
           coalesce(a.spend, h.reserved, 0) AS spend,
           a.strict
      FROM guard g
     CROSS JOIN json_to_recordset(($74::text)::json)
                    AS a(resource text, target bigint, spend bigint, strict boolean)
     -- What a sub-run uses is also used by the runs that it was started for, on their threads and by
     -- their agents; once, where an agent calls itself.
     CROSS JOIN LATERAL (
           VALUES ('tenant', '00000000-0000-0000-0000-000000000000'::uuid),
                  ('key', g.key_id), ('agent', g.agent_id),
                  ('thread', g.thread_id), ('run', g.run_id)
            UNION
           SELECT 'run', unnest(g.ancestors)
            UNION
           SELECT scope, unnest(g.ancestor_owners)
             FROM unnest(ARRAY['agent', 'thread']) AS above(scope)) AS o(scope, owner_id)
      JOIN budget b
        ON b.tenant_id = g.tenant_id
       AND b.scope = o.scope
       AND b.owner_id = o.owner_id
       AND b.resource = a.resource
      LEFT JOIN budget_draw h
        ON h.tenant_id = b.tenant_id
       AND h.run_id = g.run_id
       AND h.scope = b.scope
       AND h.owner_id = b.owner_id
       AND h.resource = b.resource
     ORDER BY b.scope, b.owner_id, b.resource
       FOR UPDATE OF b
), drawn AS (
    -- What is asked for must fit beside all that was ever used, or the schema refuses the whole append.
    -- What has been used is only put down: the part beyond the bound stands apart.
    UPDATE budget b
       SET reserved = b.reserved - d.held + d.target,
           used = CASE WHEN d.strict
               THEN CASE WHEN b.period_ends_at <= now() THEN 0 ELSE b.used + b.overrun END + d.spend
               ELSE least(
                   CASE WHEN b.period_ends_at <= now() THEN 0 ELSE b.used + b.overrun END + d.spend,
                   b.bound - b.reserved + d.held - d.target) END,
           overrun = CASE WHEN d.strict THEN 0 ELSE greatest(0,
               CASE WHEN b.period_ends_at <= now() THEN 0 ELSE b.used + b.overrun END + d.spend
                   - b.bound + b.reserved - d.held + d.target) END,
           period_ends_at = CASE WHEN b.period_ends_at <= now()
               THEN (date_trunc(b.period, now() AT TIME ZONE 'UTC') + ('1 ' || b.period)::interval)
                    AT TIME ZONE 'UTC'
               ELSE b.period_ends_at END
      FROM draw d
     WHERE b.tenant_id = d.tenant_id
       AND b.scope = d.scope
       AND b.owner_id = d.owner_id
       AND b.resource = d.resource
), held AS (
    INSERT INTO budget_draw (tenant_id, run_id, scope, owner_id, resource, reserved, spent)
    SELECT tenant_id, run_id, scope, owner_id, resource, target, spend FROM draw
        ON CONFLICT (tenant_id, run_id, scope, owner_id, resource) DO UPDATE
       SET reserved = excluded.reserved, spent = budget_draw.spent + excluded.spent
), waits_for_room AS (
    INSERT INTO budget_wait (tenant_id, run_id, scope, owner_id, resource, needs, since)
    SELECT g.tenant_id, g.run_id, w.scope, w.owner_id, w.resource, w.needs, now()
      FROM guard g
     CROSS JOIN json_to_recordset(($75::text)::json)
                    AS w(scope text, owner_id uuid, resource text, needs bigint)
        ON CONFLICT (tenant_id, run_id, scope, owner_id, resource) DO UPDATE
       SET needs = excluded.needs
), waits_no_more AS (
    DELETE FROM budget_wait w
     USING guard g
     WHERE $76
       AND $10 <> 'requires_action'
       AND w.tenant_id = g.tenant_id
       AND w.run_id = g.run_id
), pinned AS (
    -- A run is given its tools once.
    INSERT INTO run_pin (tenant_id, run_id, thread_id, pins, created_at)
    SELECT g.tenant_id, g.run_id, g.thread_id, $80, $8
      FROM guard g
     WHERE $80::text IS NOT NULL
        ON CONFLICT (tenant_id, run_id) DO NOTHING
), released AS (
    DELETE FROM run_lease l
     USING guard g
     WHERE $10 <> 'running'
       AND l.tenant_id = g.tenant_id
       AND l.run_id = g.run_id
)
SELECT count(*) AS "stored!" FROM guard
