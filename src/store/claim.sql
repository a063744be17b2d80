-- Claims waiting runs, one for each token: tenants by turns, the runs of each oldest first. The first
-- claim of a run also records its first turn, unless messages wait to come before it or a budget has to
-- have room for it.
--
-- $1 tokens   $2 time to live   $3 now   $4 data of turn.started   $5 data of run.started
-- $6 data of run.started before the first turn   $7 newest format   $8 most runs a tenant
WITH RECURSIVE waiting (tenant_id) AS (
    -- One probe of the index a tenant, however many runs wait.
    (SELECT r.tenant_id FROM run r WHERE r.status = 'queued' ORDER BY r.tenant_id LIMIT 1)
     UNION ALL
    SELECT (SELECT r.tenant_id
              FROM run r
             WHERE r.status = 'queued'
               AND r.tenant_id > w.tenant_id
             ORDER BY r.tenant_id
             LIMIT 1)
      FROM waiting w
     WHERE w.tenant_id IS NOT NULL
), candidate AS (
    -- A run's turn is how many of its tenant's come before it, those that are held included: whoever
    -- holds least is next, and a backlog waits for itself only. More are named than are claimed, for
    -- workers that pass each other.
    SELECT w.tenant_id, q.run_id, q.available_at, held.n + q.place AS turn
      FROM waiting w
     CROSS JOIN LATERAL (
           SELECT count(*) AS n FROM run_lease l WHERE l.tenant_id = w.tenant_id) held
     CROSS JOIN LATERAL (
           SELECT o.run_id, o.available_at,
                  row_number() OVER (ORDER BY o.available_at, o.run_id) AS place
             FROM (SELECT r.run_id, r.available_at
                     FROM run r
                    WHERE r.tenant_id = w.tenant_id
                      AND r.status = 'queued'
                      AND r.available_at <= now()
                      AND r.format <= $7
                    ORDER BY r.available_at
                    LIMIT greatest(least($8 - held.n, 4 * cardinality($1::uuid[])), 0)) o) q
     WHERE w.tenant_id IS NOT NULL
), due AS (
    -- SKIP LOCKED lets workers pass each other; the limit is inside the lock.
    SELECT r.tenant_id, r.run_id, r.key_id, r.agent_id, r.thread_id, r.ancestors,
           r.ancestor_owners
      FROM candidate c
      JOIN run r
        ON r.tenant_id = c.tenant_id
       AND r.run_id = c.run_id
     WHERE r.status = 'queued'
       AND r.available_at <= now()
     ORDER BY c.turn, c.available_at
     LIMIT cardinality($1::uuid[])
       FOR UPDATE OF r SKIP LOCKED
), numbered AS (
    -- A budget that was set while the run was being accepted, or was interrupted, is not known to its row.
    SELECT d.tenant_id, d.run_id, row_number() OVER () AS place,
           EXISTS (
               SELECT
                 FROM budget b
                WHERE b.tenant_id = d.tenant_id
                  AND ((b.scope, b.owner_id) IN (
                           ('tenant', '00000000-0000-0000-0000-000000000000'::uuid), ('key', d.key_id),
                           ('agent', d.agent_id), ('thread', d.thread_id), ('run', d.run_id))
                       OR (b.scope = 'run' AND b.owner_id = ANY (d.ancestors))
                       OR (b.scope IN ('agent', 'thread')
                           AND b.owner_id = ANY (d.ancestor_owners)))) AS draws
      FROM due d
), claimed AS (
    UPDATE run r
       SET status = 'running',
           lease_token = ($1::uuid[])[n.place],
           epoch = r.epoch + 1,
           claims_since_progress = r.claims_since_progress + 1,
           started_at = coalesce(r.started_at, $3),
           budgeted = r.budgeted OR n.draws,
           turn = CASE WHEN r.started_at IS NULL AND r.n_messages = 0
                            AND NOT (r.budgeted OR n.draws)
                           THEN 1 ELSE r.turn END,
           attempt = CASE WHEN r.started_at IS NULL AND r.n_messages = 0
                               AND NOT (r.budgeted OR n.draws)
                           THEN 1 ELSE r.attempt END,
           next_event_seq = r.next_event_seq
               + CASE WHEN r.started_at IS NOT NULL THEN 0
                    WHEN r.n_messages = 0 AND NOT (r.budgeted OR n.draws) THEN 2
                    ELSE 1 END
      FROM numbered n
     WHERE r.tenant_id = n.tenant_id
       AND r.run_id = n.run_id
 RETURNING r.tenant_id, r.run_id, r.lease_token, r.epoch, r.claims_since_progress,
           r.next_event_seq, r.last_fault, r.epoch = 1 AS is_first,
           r.epoch = 1 AND r.n_messages = 0 AND NOT r.budgeted AS begins,
           r.cancel_requested_at IS NOT NULL AS cancel,
           r.interrupt_requested_at IS NOT NULL AS interrupt,
           (extract(epoch FROM now() - r.available_at) * 1000)::bigint AS waited_ms
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
       begins AS "begins!", cancel AS "cancel!", interrupt AS "interrupt!", last_fault,
       waited_ms AS "waited_ms!"
  FROM claimed
