-- Records requests that no run sent.
--
-- $1 tenant   $2 thread   $3 what is no bytes, a document   $4–$8 the bytes
WITH new_usage AS (
    INSERT INTO model_usage (tenant_id, request_id, sent_at, provider, model, input, output, cache_read,
                             cache_write, reasoning, cost)
    SELECT t.tenant_id, u.request_id, u.sent_at, u.provider, u.model, u.input, u.output, u.cache_read,
           u.cache_write, u.reasoning, u.cost
      FROM thread t,
           json_to_recordset(($3::text)::json) AS u (
               request_id uuid, sent_at timestamptz, provider text, model text, input bigint,
               output bigint, cache_read bigint, cache_write bigint, reasoning bigint, cost bigint)
     WHERE t.tenant_id = $1
       AND t.thread_id = $2
       AND u.input IS NOT NULL
)
INSERT INTO model_request (tenant_id, request_id, thread_id, step_seq, turn, attempt, purpose,
                           provider, endpoint, header_names, profile, renderer, sent_at,
                           first_byte_ms, took_ms, status, outcome, error, response,
                           response_encoding, response_type, sha256, bytes, base_id, head_shared,
                           head, head_encoding, conversation_shared, conversation,
                           conversation_encoding, spans)
SELECT t.tenant_id, q.request_id, t.thread_id, q.step_seq, q.turn, q.attempt, q.purpose, q.provider,
       q.endpoint, q.header_names, q.profile, q.renderer, q.sent_at, q.first_byte_ms, q.took_ms,
       q.status, q.outcome, q.error, q.response, q.response_encoding, q.response_type, q.sha256,
       q.bytes, q.base_id, q.head_shared, q.head, q.head_encoding, q.conversation_shared,
       q.conversation, q.conversation_encoding, q.spans
  FROM thread t,
       ROWS FROM (
           json_to_recordset(($3::text)::json) AS (
               request_id uuid, step_seq bigint, turn integer, attempt integer, purpose text,
               provider text, endpoint text, header_names json, profile json, renderer integer,
               sent_at timestamptz, first_byte_ms bigint, took_ms bigint, status integer,
               outcome text, error text, response_encoding text, response_type text, bytes bigint,
               base_id uuid, head_shared bigint, head_encoding text, conversation_shared bigint,
               conversation_encoding text),
           unnest($4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[])
       ) AS q(request_id, step_seq, turn, attempt, purpose, provider, endpoint, header_names, profile,
              renderer, sent_at, first_byte_ms, took_ms, status, outcome, error, response_encoding,
              response_type, bytes, base_id, head_shared, head_encoding, conversation_shared,
              conversation_encoding, sha256, response, head, conversation, spans)
 WHERE t.tenant_id = $1
   AND t.thread_id = $2
