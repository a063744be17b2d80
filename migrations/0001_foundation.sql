-- The foundation: agents, threads, runs and their history.
--
-- Every key starts with the tenant: isolation, locality and a ready distribution column. Labels are
-- text with a CHECK that a test compares with the types of the service. `json` rather than `jsonb`
-- holds documents whose key order and spelling must survive.

CREATE TABLE api_key (
    tenant_id   text        NOT NULL,
    key_id      uuid        NOT NULL,
    name        text        NOT NULL,
    hash        bytea       NOT NULL CHECK (octet_length(hash) = 32),
    scopes      text[]      NOT NULL CHECK (cardinality(scopes) > 0),
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz,
    revoked_at  timestamptz,
    PRIMARY KEY (tenant_id, key_id)
);
-- A key is looked up by its id alone: the tenant is what the lookup tells.
CREATE UNIQUE INDEX api_key_by_id ON api_key (key_id);

-- Random bytes that all replicas share, such as the key that signs cursors.
CREATE TABLE server_secret (
    name   text  PRIMARY KEY,
    value  bytea NOT NULL CHECK (octet_length(value) = 32)
);

CREATE TABLE agent (
    tenant_id    text        NOT NULL,
    agent_id     uuid        NOT NULL,
    name         text        NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
    version      integer     NOT NULL CHECK (version >= 1),
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    archived_at  timestamptz,
    PRIMARY KEY (tenant_id, agent_id)
);
-- An archived agent gives its name back.
CREATE UNIQUE INDEX agent_name ON agent (tenant_id, name) WHERE archived_at IS NULL;
CREATE INDEX agent_newest ON agent (tenant_id, created_at DESC, agent_id DESC);

CREATE TABLE agent_version (
    tenant_id   text        NOT NULL,
    agent_id    uuid        NOT NULL,
    version     integer     NOT NULL CHECK (version >= 1),
    spec        json        NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, agent_id, version),
    CONSTRAINT agent_version_agent FOREIGN KEY (tenant_id, agent_id)
        REFERENCES agent (tenant_id, agent_id)
);

CREATE TABLE thread (
    tenant_id       text        NOT NULL,
    thread_id       uuid        NOT NULL,
    framing_policy  text        NOT NULL CONSTRAINT thread_framing_policy CHECK (framing_policy IN ('frames')),
    metadata        json        NOT NULL,
    memory_from     bigint      NOT NULL DEFAULT 1 CHECK (memory_from >= 1),
    revision        bigint      NOT NULL DEFAULT 1 CHECK (revision >= 1),
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, thread_id)
);
CREATE INDEX thread_newest ON thread (tenant_id, created_at DESC, thread_id DESC);

CREATE TABLE run (
    tenant_id              text        NOT NULL,
    run_id                 uuid        NOT NULL,
    thread_id              uuid        NOT NULL,
    agent_id               uuid,
    agent_version          integer,
    -- The definition of an inline agent; stored agents are referenced instead.
    inline_agent           json,
    status                 text        NOT NULL CONSTRAINT run_status
        CHECK (status IN ('queued', 'running', 'completed', 'failed', 'cancelled', 'interrupted')),
    stop_reason            text        CONSTRAINT run_stop_reason
        CHECK (stop_reason IN ('final_answer', 'text', 'max_steps', 'loop_detected')),
    answer                 text,
    output                 json,
    failure                json,
    max_steps              integer     CHECK (max_steps >= 1),
    deadline_at            timestamptz,
    -- The step that the next append must be: the compare-and-set that no lost race gets past.
    next_seq               bigint      NOT NULL CHECK (next_seq >= 2),
    next_event_seq         bigint      NOT NULL CHECK (next_event_seq >= 2),
    turn                   integer     NOT NULL DEFAULT 0 CHECK (turn >= 0),
    attempt                integer     NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    closing                boolean     NOT NULL DEFAULT false,
    n_steps                integer     NOT NULL DEFAULT 1 CHECK (n_steps >= 1),
    usage_input            bigint      NOT NULL DEFAULT 0,
    usage_output           bigint      NOT NULL DEFAULT 0,
    usage_cache_read       bigint      NOT NULL DEFAULT 0,
    usage_cache_write      bigint      NOT NULL DEFAULT 0,
    usage_reasoning        bigint      NOT NULL DEFAULT 0,
    -- The random token fences writes in the database; the epoch is the fence told to the outside.
    lease_token            uuid,
    epoch                  bigint      NOT NULL DEFAULT 0,
    claims_since_progress  integer     NOT NULL DEFAULT 0,
    available_at           timestamptz NOT NULL,
    cancel_requested_at    timestamptz,
    interrupt_requested_at timestamptz,
    resumed                boolean     NOT NULL DEFAULT false,
    -- The last write, so that a write whose answer was lost can be recognised.
    op_id                  uuid        NOT NULL,
    metadata               json        NOT NULL,
    created_at             timestamptz NOT NULL,
    started_at             timestamptz,
    finished_at            timestamptz,
    PRIMARY KEY (tenant_id, run_id),
    CONSTRAINT run_thread FOREIGN KEY (tenant_id, thread_id)
        REFERENCES thread (tenant_id, thread_id) ON DELETE CASCADE,
    CONSTRAINT run_agent_version FOREIGN KEY (tenant_id, agent_id, agent_version)
        REFERENCES agent_version (tenant_id, agent_id, version),
    CONSTRAINT run_one_agent CHECK ((agent_id IS NULL) = (agent_version IS NULL)
        AND (agent_id IS NULL) <> (inline_agent IS NULL)),
    CONSTRAINT run_finished_iff_ended CHECK ((finished_at IS NOT NULL)
        = (status IN ('completed', 'failed', 'cancelled', 'interrupted'))),
    CONSTRAINT run_leased_iff_running CHECK ((lease_token IS NOT NULL) = (status = 'running')),
    CONSTRAINT run_answer_iff_completed CHECK ((status = 'completed')
        = (answer IS NOT NULL AND stop_reason IS NOT NULL)),
    CONSTRAINT run_failure_iff_failed CHECK ((status = 'failed') = (failure IS NOT NULL)),
    CONSTRAINT run_thread_of_run UNIQUE (tenant_id, run_id, thread_id)
);
CREATE UNIQUE INDEX run_one_active_per_thread ON run (tenant_id, thread_id)
    WHERE status IN ('queued', 'running');
CREATE INDEX run_claimable ON run (available_at) WHERE status = 'queued';
CREATE INDEX run_newest ON run (tenant_id, created_at DESC, run_id DESC);
CREATE INDEX run_of_thread ON run (tenant_id, thread_id, created_at DESC, run_id DESC);
CREATE INDEX run_of_agent ON run (tenant_id, agent_id, agent_version);

-- One small row a running run, so that heartbeats do not rewrite the runs themselves.
CREATE TABLE run_lease (
    tenant_id    text        NOT NULL,
    run_id       uuid        NOT NULL,
    lease_token  uuid        NOT NULL,
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_id),
    CONSTRAINT run_lease_run FOREIGN KEY (tenant_id, run_id)
        REFERENCES run (tenant_id, run_id) ON DELETE CASCADE
) WITH (fillfactor = 70);

CREATE TABLE step (
    tenant_id   text        NOT NULL,
    thread_id   uuid        NOT NULL,
    seq         bigint      NOT NULL CHECK (seq >= 1),
    step_id     uuid        NOT NULL,
    -- NULL for loaded memory.
    run_id      uuid,
    turn        integer     NOT NULL CHECK (turn >= 0),
    attempt     integer     NOT NULL CHECK (attempt >= 0),
    kind        text        NOT NULL CONSTRAINT step_kind
        CHECK (kind IN ('task', 'action', 'retry', 'system', 'final')),
    op_id       uuid        NOT NULL,
    epoch       bigint      NOT NULL CHECK (epoch >= 0),
    content     json        NOT NULL,
    -- What the provider answered, byte for byte; only of an action.
    raw_reply   bytea,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, thread_id, seq),
    CONSTRAINT step_thread FOREIGN KEY (tenant_id, thread_id)
        REFERENCES thread (tenant_id, thread_id) ON DELETE CASCADE,
    CONSTRAINT step_run FOREIGN KEY (tenant_id, run_id, thread_id)
        REFERENCES run (tenant_id, run_id, thread_id) ON DELETE CASCADE,
    CONSTRAINT step_raw_reply_of_action CHECK (raw_reply IS NULL OR kind = 'action')
);
CREATE UNIQUE INDEX step_by_id ON step (tenant_id, step_id);
CREATE INDEX step_of_run ON step (tenant_id, run_id, seq) WHERE run_id IS NOT NULL;

CREATE TABLE tool_call (
    tenant_id      text        NOT NULL,
    thread_id      uuid        NOT NULL,
    step_seq       bigint      NOT NULL,
    call_idx       integer     NOT NULL CHECK (call_idx >= 0),
    run_id         uuid        NOT NULL,
    call_id        text        NOT NULL CHECK (length(call_id) BETWEEN 1 AND 128),
    name           text        NOT NULL,
    -- Text, not JSON: exactly what the provider sent, which may not be JSON at all.
    arguments      text        NOT NULL,
    effect         text        NOT NULL CONSTRAINT tool_call_effect
        CHECK (effect IN ('pure', 'idempotent', 'at_most_once')),
    parallel_safe  boolean     NOT NULL,
    unparsable     boolean     NOT NULL,
    state          text        NOT NULL CONSTRAINT tool_call_state
        CHECK (state IN ('planned', 'started', 'ended')),
    attempt        integer     NOT NULL CHECK (attempt >= 0),
    started_epoch  bigint,
    outcome        json,
    PRIMARY KEY (tenant_id, thread_id, step_seq, call_idx),
    CONSTRAINT tool_call_step FOREIGN KEY (tenant_id, thread_id, step_seq)
        REFERENCES step (tenant_id, thread_id, seq) ON DELETE CASCADE,
    CONSTRAINT tool_call_run FOREIGN KEY (tenant_id, run_id, thread_id)
        REFERENCES run (tenant_id, run_id, thread_id) ON DELETE CASCADE,
    CONSTRAINT tool_call_id UNIQUE (tenant_id, run_id, call_id),
    CONSTRAINT tool_call_outcome_iff_ended CHECK ((outcome IS NOT NULL) = (state = 'ended')),
    CONSTRAINT tool_call_started_has_epoch CHECK (state <> 'started' OR started_epoch IS NOT NULL)
);

CREATE TABLE run_event (
    tenant_id   text        NOT NULL,
    run_id      uuid        NOT NULL,
    seq         bigint      NOT NULL CHECK (seq >= 1),
    name        text        NOT NULL CONSTRAINT run_event_name
        CHECK (name IN ('run.created', 'run.started', 'run.resumed', 'turn.started',
            'turn.restarted', 'tool.call', 'tool.result', 'step.recorded', 'run.completed',
            'run.failed', 'run.cancelled', 'run.interrupted')),
    data        json        NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_id, seq),
    CONSTRAINT run_event_run FOREIGN KEY (tenant_id, run_id)
        REFERENCES run (tenant_id, run_id) ON DELETE CASCADE
);

CREATE TABLE idempotency (
    tenant_id     text        NOT NULL,
    route         text        NOT NULL,
    key           text        NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    request_hash  bytea       NOT NULL CHECK (octet_length(request_hash) = 32),
    run_id        uuid        NOT NULL,
    created_at    timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, route, key)
);
CREATE INDEX idempotency_age ON idempotency (created_at);
