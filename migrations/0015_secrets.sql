-- Secrets that tenants keep here. A value is stored sealed and nowhere else, and no statement reads one in
-- any other form.

CREATE TABLE secret (
    tenant_id     text        NOT NULL,
    name          text        NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
    -- Grows by one with each value. Tenant, name and version are authenticated with what is sealed, so that
    -- a row which is moved does not open.
    version       integer     NOT NULL CHECK (version >= 1),
    -- The value under a random key of this version.
    sealed        bytea       NOT NULL,
    -- That key under a key-encryption key, which is stored nowhere.
    wrapped_key   bytea       NOT NULL,
    kek_id        text        NOT NULL,
    -- Where the value may be sent.
    origins       text[]      NOT NULL CHECK (cardinality(origins) BETWEEN 1 AND 16),
    fingerprint   text        NOT NULL CHECK (fingerprint ~ '^[0-9a-f]{8}$'),
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    last_used_at  timestamptz,
    PRIMARY KEY (tenant_id, name)
);
CREATE INDEX secret_newest ON secret (tenant_id, created_at DESC, name DESC);

-- A request that is not sent because the model's key cannot be had.
ALTER TABLE model_request
    DROP CONSTRAINT model_request_error,
    ADD CONSTRAINT model_request_error
        CHECK (error IN ('auth', 'permission', 'not_found', 'quota', 'rate_limit', 'bad_request',
            'context_window', 'too_large', 'content_filter', 'tool_generation_failed', 'overloaded',
            'unavailable', 'server', 'timeout', 'transport', 'protocol', 'truncated_stream',
            'unusable_output', 'framing_violation', 'secret_unavailable'));
