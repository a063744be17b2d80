-- The wire ledger: every request to a model as it was sent, and what came back.
--
-- A body stands in two segments, the head and the conversation. Each is so many leading bytes of the
-- same segment of an earlier request, the base, and the bytes that are new: a thread of n turns costs
-- O(n) bytes. Where the bytes come from, the spans, is kept of the new bytes alone too.

CREATE TABLE model_request (
    tenant_id              text        NOT NULL,
    request_id             uuid        NOT NULL,
    thread_id              uuid        NOT NULL,
    -- NULL for a summary that a caller asked for.
    run_id                 uuid,
    -- `seq` of the step that came of it.
    step_seq               bigint,
    turn                   integer     NOT NULL CHECK (turn >= 0),
    attempt                integer     NOT NULL CHECK (attempt >= 1),
    purpose                text        NOT NULL CONSTRAINT model_request_purpose
        CHECK (purpose IN ('reply', 'summary')),
    -- No CHECK: a provider is added without touching the schema.
    provider               text,
    -- Path and query of the address, never its host or what a header says.
    endpoint               text,
    header_names           json,
    profile                json,
    renderer               integer     CHECK (renderer >= 1),
    sent_at                timestamptz,
    first_byte_ms          bigint      CHECK (first_byte_ms >= 0),
    took_ms                bigint      CHECK (took_ms >= 0),
    status                 integer     CHECK (status BETWEEN 100 AND 999),
    outcome                text        NOT NULL CONSTRAINT model_request_outcome
        CHECK (outcome IN ('replied', 'failed', 'abandoned')),
    error                  text        CONSTRAINT model_request_error
        CHECK (error IN ('auth', 'permission', 'not_found', 'quota', 'rate_limit', 'bad_request',
            'context_window', 'too_large', 'content_filter', 'tool_generation_failed', 'overloaded',
            'unavailable', 'server', 'timeout', 'transport', 'protocol', 'truncated_stream',
            'unusable_output', 'framing_violation')),
    -- What came back, as far as it came; NULL when nothing did.
    response               bytea,
    response_encoding      text        CONSTRAINT model_request_response_encoding
        CHECK (response_encoding IN ('identity', 'zlib')),
    response_type          text,
    sha256                 bytea       CHECK (octet_length(sha256) = 32),
    bytes                  bigint      CHECK (bytes >= 0),
    base_id                uuid,
    head_shared            bigint      NOT NULL CHECK (head_shared >= 0),
    head                   bytea,
    head_encoding          text        CONSTRAINT model_request_head_encoding
        CHECK (head_encoding IN ('identity', 'zlib')),
    conversation_shared    bigint      NOT NULL CHECK (conversation_shared >= 0),
    conversation           bytea,
    conversation_encoding  text        CONSTRAINT model_request_conversation_encoding
        CHECK (conversation_encoding IN ('identity', 'zlib')),
    -- A document compressed by zlib.
    spans                  bytea,
    PRIMARY KEY (tenant_id, request_id),
    CONSTRAINT model_request_thread FOREIGN KEY (tenant_id, thread_id)
        REFERENCES thread (tenant_id, thread_id) ON DELETE CASCADE,
    CONSTRAINT model_request_run FOREIGN KEY (tenant_id, run_id, thread_id)
        REFERENCES run (tenant_id, run_id, thread_id) ON DELETE CASCADE,
    CONSTRAINT model_request_step FOREIGN KEY (tenant_id, thread_id, step_seq)
        REFERENCES step (tenant_id, thread_id, seq) ON DELETE CASCADE,
    -- No CASCADE: what another request is made of does not go without it.
    CONSTRAINT model_request_base FOREIGN KEY (tenant_id, base_id)
        REFERENCES model_request (tenant_id, request_id),
    CONSTRAINT model_request_failed_has_error CHECK ((outcome = 'failed') = (error IS NOT NULL)),
    CONSTRAINT model_request_response_has_encoding
        CHECK ((response IS NULL) = (response_encoding IS NULL)),
    CONSTRAINT model_request_kept_is_whole CHECK (CASE
        WHEN head IS NULL THEN
            num_nonnulls(head_encoding, conversation, conversation_encoding, spans, base_id) = 0
        ELSE num_nulls(head_encoding, conversation, conversation_encoding, spans, sha256, bytes,
                       provider, endpoint, header_names, profile, renderer, sent_at, took_ms) = 0
        END),
    CONSTRAINT model_request_shares_with_its_base CHECK (base_id IS NOT NULL
        OR (head_shared, conversation_shared) = (0, 0))
);
-- All of its bytes that are worth it are compressed already.
ALTER TABLE model_request
    ALTER COLUMN response SET STORAGE EXTERNAL,
    ALTER COLUMN head SET STORAGE EXTERNAL,
    ALTER COLUMN conversation SET STORAGE EXTERNAL,
    ALTER COLUMN spans SET STORAGE EXTERNAL;
CREATE INDEX model_request_of_step ON model_request (tenant_id, thread_id, step_seq);
CREATE INDEX model_request_of_run ON model_request (tenant_id, run_id, turn, attempt)
    WHERE run_id IS NOT NULL;
-- For the last request of a thread to a provider, which the next one shares its beginning with.
CREATE INDEX model_request_of_thread
    ON model_request (tenant_id, thread_id, provider, request_id) WHERE head IS NOT NULL;
-- For the check that no request goes that another one is made of.
CREATE INDEX model_request_of_base ON model_request (tenant_id, base_id) WHERE base_id IS NOT NULL;

-- Replies that were kept with their steps. The bodies of the requests that they answer were not kept.
INSERT INTO model_request (tenant_id, request_id, thread_id, run_id, step_seq, turn, attempt, purpose,
                           provider, outcome, response, response_encoding, sha256, bytes, head_shared,
                           conversation_shared)
SELECT tenant_id, step_id, thread_id, run_id, seq, turn, greatest(attempt, 1), 'reply',
       content->'reply'->>'provider', 'replied', raw_reply, 'identity', request_sha256, request_bytes,
       0, 0
  FROM step
 WHERE raw_reply IS NOT NULL;

-- The request that a step answers stays with it in figures, and now with the first span of it that
-- differs from the request before it. `raw_reply` and `request_from` are no longer written; they stay
-- for servers of the version before, which write them while a release is rolled out, and go with a
-- later one.
ALTER TABLE step
    DROP CONSTRAINT step_request_of_an_action,
    ADD COLUMN request_difference json,
    ADD CONSTRAINT step_request_of_an_action CHECK (CASE
        WHEN request_sha256 IS NULL THEN
            request_bytes IS NULL AND request_shared_bytes IS NULL AND request_difference IS NULL
        ELSE kind = 'action'
            AND octet_length(request_sha256) = 32
            AND coalesce(request_bytes >= 0, false)
            AND coalesce(request_shared_bytes, 0) BETWEEN 0 AND request_bytes
            AND (request_difference IS NULL OR request_shared_bytes IS NOT NULL)
        END);
