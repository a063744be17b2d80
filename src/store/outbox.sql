-- Claims deliveries that are due, one for each token, oldest first. An endpoint has at most so many
-- under way at once, on all replicas, so that a slow one does not stand in the way of the others. While
-- a delivery is under way it is due again after a while: that is when its claimer is taken for dead.
--
-- $1 tokens   $2 how long until it is due again   $3 the most an endpoint has under way
WITH due AS (
    SELECT d.tenant_id, d.webhook_id, d.run_id, d.event_seq
      FROM webhook w
     CROSS JOIN LATERAL (
           SELECT p.tenant_id, p.webhook_id, p.run_id, p.event_seq, p.due_at
             FROM webhook_delivery p
            WHERE p.tenant_id = w.tenant_id
              AND p.webhook_id = w.webhook_id
              AND p.state = 'pending'
              AND p.due_at <= now()
            ORDER BY p.due_at
            LIMIT greatest(0, $3 - (
                  SELECT count(*)
                    FROM webhook_delivery u
                   WHERE u.tenant_id = w.tenant_id
                     AND u.webhook_id = w.webhook_id
                     AND u.lease_token IS NOT NULL
                     AND u.due_at > now()))
              FOR UPDATE SKIP LOCKED) d
     WHERE w.disabled_at IS NULL
     ORDER BY d.due_at
     LIMIT cardinality($1::uuid[])
), numbered AS (
    SELECT due.*, row_number() OVER () AS place FROM due
), claimed AS (
    UPDATE webhook_delivery d
       SET lease_token = ($1::uuid[])[n.place],
           due_at = now() + $2::interval,
           n_attempts = d.n_attempts + 1,
           attempted_at = now()
      FROM numbered n
     WHERE d.tenant_id = n.tenant_id
       AND d.webhook_id = n.webhook_id
       AND d.run_id = n.run_id
       AND d.event_seq = n.event_seq
 RETURNING d.tenant_id, d.webhook_id, d.run_id, d.event_seq, d.delivery_id, d.n_attempts, d.lease_token
)
SELECT c.tenant_id, c.webhook_id, c.run_id, c.event_seq, c.delivery_id, c.n_attempts,
       c.lease_token AS "lease_token!", w.url, w.secret_version,
       w.rotated_at > now() - interval '1 day' AS "is_rotated"
  FROM claimed c
  JOIN webhook w
    ON w.tenant_id = c.tenant_id
   AND w.webhook_id = c.webhook_id
