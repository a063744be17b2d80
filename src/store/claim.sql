-- Claims waiting runs, one for each token, oldest first. The first claim of a run also records its
-- first turn, unless messages wait to come before it or a budget has to have room for it.
--
-- $1 tokens   $2 time to live   $3 now   $4 data of turn.started   $5 data of run.started
-- $6 data of run.started before the first turn
WITH due AS (
    -- SKIP LOCKED lets workers pass each other; the limit is inside the lock.
    SELECT tenant_id, run_id
      FROM run
     WHERE status = 'queued'
       AND available_at <= now()
     ORDER BY available_at
     LIMIT cardinality($1::uuid[])
       FOR UPDATE SKIP LOCKED
), numbered AS (
    SELECT due.tenant_id, due.run_id, row_number() OVER () AS place FROM due
), claimed AS (
    UPDATE run r
       SET status = 'running',
           lease_token = ($1::uuid[])[n.place],
           epoch = r.epoch + 1,
           claims_since_progress = r.claims_since_progress + 1,
           started_at = coalesce(r.started_at, $3),
           turn = CASE WHEN r.started_at IS NULL AND r.n_messages = 0 AND NOT r.budgeted
                           THEN 1 ELSE r.turn END,
           attempt = CASE WHEN r.started_at IS NULL AND r.n_messages = 0 AND NOT r.budgeted
                           THEN 1 ELSE r.attempt END,
           next_event_seq = r.next_event_seq
               + CASE WHEN r.started_at IS NOT NULL THEN 0
                    WHEN r.n_messages = 0 AND NOT r.budgeted THEN 2
                    ELSE 1 END
      FROM numbered n
     WHERE r.tenant_id = n.tenant_id
       AND r.run_id = n.run_id
 RETURNING r.tenant_id, r.run_id, r.lease_token, r.epoch, r.claims_since_progress,
           r.next_event_seq, r.epoch = 1 AS is_first,
           r.epoch = 1 AND r.n_messages = 0 AND NOT r.budgeted AS begins,
           r.cancel_requested_at IS NOT NULL AS cancel,
           r.interrupt_requested_at IS NOT NULL AS interrupt
), leased AS (
    INSERT INTO run_lease (tenant_id, run_id, lease_token, expires_at)
    SELECT tenant_id, run_id, lease_token, now() + $2::interval FROM claimed
), told AS (
    INSERT INTO run_event (tenant_id, run_id, seq, name, data, created_at)
    SELECT c.tenant_id, c.run_id, c.next_event_seq - CASE WHEN c.begins THEN 2 ELSE 1 END,
           'run.started', (CASE WHEN c.begins THEN $5::text ELSE $6::text END)::json, $3
      FROM claimed c WHERE c.is_first
     UNION ALL
    SELECT c.tenant_id, c.run_id, c.next_event_seq - 1, 'turn.started',
           ($4::text)::json, $3
      FROM claimed c WHERE c.begins
)
SELECT tenant_id, run_id, lease_token AS "lease_token!", epoch, claims_since_progress,
       begins AS "begins!", cancel AS "cancel!", interrupt AS "interrupt!"
  FROM claimed
