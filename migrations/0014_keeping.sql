-- What is told to others, what is started by the clock, and what is forgotten.

-- An endpoint that events of runs are told to. Its signing secret is stored nowhere: it is derived from
-- one that all replicas share, from the id and from `secret_version`.
CREATE TABLE webhook (
    tenant_id       text        NOT NULL,
    webhook_id      uuid        NOT NULL,
    url             text        NOT NULL,
    events          text[]      NOT NULL CHECK (cardinality(events) > 0),
    -- Whether it is told of every run, or only of those that name it.
    all_runs        boolean     NOT NULL,
    metadata        json        NOT NULL,
    secret_version  integer     NOT NULL DEFAULT 1 CHECK (secret_version >= 1),
    -- When the secret was changed last: for a day the one before it signs as well.
    rotated_at      timestamptz,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    -- A disabled endpoint is told nothing, and nothing is kept for it.
    disabled_at     timestamptz,
    PRIMARY KEY (tenant_id, webhook_id)
);
CREATE INDEX webhook_newest ON webhook (tenant_id, created_at DESC, webhook_id DESC);

ALTER TABLE run
    -- The endpoint that a run names. No foreign key: an endpoint may go, and the run stays.
    ADD COLUMN webhook_id uuid;

-- The outbox: one row for each event and endpoint, written with the event. It has no foreign key to the
-- endpoint: one that goes while a run is written must not make the write fail.
CREATE TABLE webhook_delivery (
    tenant_id     text        NOT NULL,
    webhook_id    uuid        NOT NULL,
    run_id        uuid        NOT NULL,
    event_seq     bigint      NOT NULL,
    -- Follows from the three columns before it, so that whoever writes the row need not make it up.
    delivery_id   uuid        NOT NULL,
    event         text        NOT NULL,
    state         text        NOT NULL CONSTRAINT webhook_delivery_state
        CHECK (state IN ('pending', 'delivered', 'failed')),
    n_attempts    integer     NOT NULL DEFAULT 0 CHECK (n_attempts >= 0),
    -- When it may be tried: while it is being tried, when somebody else may.
    due_at        timestamptz NOT NULL,
    lease_token   uuid,
    last_status   integer     CHECK (last_status BETWEEN 100 AND 999),
    last_error    text        CONSTRAINT webhook_delivery_error
        CHECK (last_error IN ('denied', 'unreachable', 'timeout', 'status', 'unreadable')),
    created_at    timestamptz NOT NULL,
    -- When it was tried last.
    attempted_at  timestamptz,
    PRIMARY KEY (tenant_id, webhook_id, run_id, event_seq),
    CONSTRAINT webhook_delivery_event FOREIGN KEY (tenant_id, run_id, event_seq)
        REFERENCES run_event (tenant_id, run_id, seq) ON DELETE CASCADE,
    CONSTRAINT webhook_delivery_leased_is_pending CHECK (lease_token IS NULL OR state = 'pending')
);
CREATE UNIQUE INDEX webhook_delivery_by_id ON webhook_delivery (tenant_id, delivery_id);
CREATE INDEX webhook_delivery_newest
    ON webhook_delivery (tenant_id, webhook_id, created_at DESC, delivery_id DESC);
CREATE INDEX webhook_delivery_due ON webhook_delivery (tenant_id, webhook_id, due_at)
    WHERE state = 'pending';
CREATE INDEX webhook_delivery_under_way ON webhook_delivery (tenant_id, webhook_id)
    WHERE lease_token IS NOT NULL;
-- For forgetting old ones.
CREATE INDEX webhook_delivery_age ON webhook_delivery (created_at);
CREATE INDEX webhook_delivery_of_run ON webhook_delivery (tenant_id, run_id, event_seq);

-- A run that the clock starts.
CREATE TABLE schedule (
    tenant_id      text        NOT NULL,
    schedule_id    uuid        NOT NULL,
    cron           text        NOT NULL,
    timezone       text        NOT NULL,
    agent_id       uuid        NOT NULL,
    -- NULL for the newest there is when it is due.
    agent_version  integer     CHECK (agent_version >= 1),
    -- NULL for a new thread each time.
    thread_id      uuid,
    input          json        NOT NULL,
    on_overlap     text        NOT NULL CONSTRAINT schedule_on_overlap
        CHECK (on_overlap IN ('skip', 'enqueue')),
    enabled        boolean     NOT NULL,
    metadata       json        NOT NULL,
    revision       bigint      NOT NULL DEFAULT 1 CHECK (revision >= 1),
    -- NULL when no time will come.
    next_at        timestamptz,
    -- The due time that was seen to last, and what came of it: a run, or why there is none.
    last_at        timestamptz,
    last_run_id    uuid,
    last_skip      text        CONSTRAINT schedule_last_skip
        CHECK (last_skip IN ('overlap', 'refused')),
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, schedule_id),
    CONSTRAINT schedule_agent FOREIGN KEY (tenant_id, agent_id)
        REFERENCES agent (tenant_id, agent_id)
);
CREATE INDEX schedule_newest ON schedule (tenant_id, created_at DESC, schedule_id DESC);
CREATE INDEX schedule_due ON schedule (next_at) WHERE enabled;

-- What is left of a thread or a run that was erased: its id, so that it is known not to come back.
CREATE TABLE tombstone (
    tenant_id  text        NOT NULL,
    kind       text        NOT NULL CONSTRAINT tombstone_kind CHECK (kind IN ('thread', 'run')),
    id         uuid        NOT NULL,
    -- The thread that a run was on, and how many steps it left a gap of.
    thread_id  uuid        NOT NULL,
    n_steps    integer     NOT NULL CHECK (n_steps >= 0),
    erased_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, kind, id)
);

-- Idempotency keys go with the run that they lead to.
CREATE INDEX idempotency_of_run ON idempotency (tenant_id, run_id);

-- Work that one replica at a time does, and how far it has come. The row is its lock: whoever moves
-- `due_at` on has it until then.
CREATE TABLE chore (
    name          text        PRIMARY KEY,
    due_at        timestamptz NOT NULL,
    after_tenant  text        NOT NULL DEFAULT '',
    after_id      uuid        NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000'
);
INSERT INTO chore (name, due_at) VALUES ('threads', now()), ('ledger', now()), ('deliveries', now());
