-- What servers tell each other of replies on their way, so that a reader sees deltas wherever it is
-- connected. Both tables are unlogged: after a crash of the database they are empty, and readers make do
-- with the steps that the deltas would have added up to.

-- Who watches a run that another server may be working on; that server writes deltas only while someone
-- does. A server has one watch of a run, however many read it there.
CREATE UNLOGGED TABLE run_watch (
    tenant_id   text        NOT NULL,
    run_id      uuid        NOT NULL,
    server_id   uuid        NOT NULL,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_id, server_id)
);
CREATE INDEX run_watch_expiry ON run_watch (expires_at);

-- Pieces of the reply that is on its way, redacted as callers read it.
CREATE UNLOGGED TABLE run_delta (
    tenant_id   text        NOT NULL,
    run_id      uuid        NOT NULL,
    turn        integer     NOT NULL CHECK (turn >= 1),
    attempt     integer     NOT NULL CHECK (attempt >= 1),
    -- 0, 1, 2 … within the attempt: a reader that misses one knows it.
    place       integer     NOT NULL CHECK (place >= 0),
    kind        text        NOT NULL CONSTRAINT run_delta_kind
        CHECK (kind IN ('text.delta', 'thinking.delta', 'tool_call.delta')),
    piece       text        NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_id, turn, attempt, place)
);
CREATE INDEX run_delta_age ON run_delta (created_at);
