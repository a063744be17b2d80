-- Runs that wait for a caller, and the answers they wait for.
--
-- A server of the version before neither claims nor sweeps such runs; it cannot show them.

ALTER TABLE run
    DROP CONSTRAINT run_status,
    ADD CONSTRAINT run_status CHECK (status IN ('queued', 'running', 'requires_action', 'completed',
        'failed', 'cancelled', 'interrupted')),
    -- What it waits for. It stays when the run is queued again, until a worker has told of that.
    ADD COLUMN requires_action json,
    -- When it is queued again by itself.
    ADD COLUMN wake_at timestamptz,
    -- All answers that were ever given. The count stands in this row because a statement that waited
    -- for the row reads it anew.
    ADD COLUMN n_answers integer NOT NULL DEFAULT 0 CHECK (n_answers >= 0),
    ADD CONSTRAINT run_waits_for_something
        CHECK (status <> 'requires_action' OR requires_action IS NOT NULL),
    ADD CONSTRAINT run_ended_waits_for_nothing CHECK (requires_action IS NULL
        OR status IN ('queued', 'running', 'requires_action'));

-- A thread whose run waits is as busy as one whose run is under way.
DROP INDEX run_one_active_per_thread;
CREATE UNIQUE INDEX run_one_active_per_thread ON run (tenant_id, thread_id)
    WHERE status IN ('queued', 'running', 'requires_action');
CREATE INDEX run_to_wake ON run (wake_at) WHERE status = 'requires_action';

ALTER TABLE tool_call
    DROP CONSTRAINT tool_call_state,
    ADD CONSTRAINT tool_call_state CHECK (state IN ('planned', 'started', 'waiting', 'ended')),
    -- How its tool wants it to wait; NULL when it waits for nobody.
    ADD COLUMN wait_rules json,
    ADD COLUMN waits_for text CONSTRAINT tool_call_waits_for
        CHECK (waits_for IN ('tool_results', 'approval', 'in_doubt')),
    ADD COLUMN wait_until timestamptz,
    ADD COLUMN approved boolean NOT NULL DEFAULT false,
    -- What it is sent with, where whoever approved it changed the arguments.
    ADD COLUMN sent_arguments text,
    ADD CONSTRAINT tool_call_waits_iff_waiting CHECK ((state = 'waiting') = (waits_for IS NOT NULL)
        AND (state = 'waiting') = (wait_until IS NOT NULL));

ALTER TABLE run_event
    DROP CONSTRAINT run_event_name,
    ADD CONSTRAINT run_event_name
        CHECK (name IN ('run.created', 'run.started', 'run.requires_action', 'run.resumed',
            'turn.started', 'turn.restarted', 'tool.call', 'tool.result', 'step.recorded',
            'budget.warning', 'run.completed', 'run.failed', 'run.cancelled', 'run.interrupted'));

-- One answer to each wait: who comes second finds the key taken.
CREATE TABLE call_answer (
    tenant_id   text        NOT NULL,
    run_id      uuid        NOT NULL,
    call_id     text        NOT NULL,
    waits_for   text        NOT NULL CONSTRAINT call_answer_waits_for
        CHECK (waits_for IN ('tool_results', 'approval', 'in_doubt')),
    -- How often the call had been started: it may be in doubt more than once.
    attempt     integer     NOT NULL CHECK (attempt >= 0),
    answer      json        NOT NULL,
    -- The key that the answer came with; NULL for the operator's own.
    key_id      uuid,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_id, call_id, waits_for, attempt),
    CONSTRAINT call_answer_run FOREIGN KEY (tenant_id, run_id)
        REFERENCES run (tenant_id, run_id) ON DELETE CASCADE
);
