-- Steering: what is done when a thread is busy or a client goes away, runs that wait for their thread,
-- and what a cancel stopped.
--
-- A server of the version before cannot claim a run that waits for its thread, as it never becomes
-- available, and takes the thread for busy. It can cancel such a run.

ALTER TABLE run
    ADD COLUMN on_busy text NOT NULL DEFAULT 'reject' CONSTRAINT run_on_busy
        CHECK (on_busy IN ('reject', 'enqueue', 'interrupt', 'rollback')),
    ADD COLUMN on_disconnect text NOT NULL DEFAULT 'continue' CONSTRAINT run_on_disconnect
        CHECK (on_disconnect IN ('continue', 'cancel')),
    -- The task of a run that waits for its thread: the order of steps is that of the thread, so it
    -- becomes one only when the run's turn has come. It stays with a run that ended before that.
    ADD COLUMN enqueued_task json,
    -- Its place among those that wait for the thread; the lowest comes first.
    ADD COLUMN queue_place bigint,
    -- Since when models are no longer told of its steps.
    ADD COLUMN rolled_back_at timestamptz,
    -- What the cancel stopped.
    ADD COLUMN stopped json,
    ADD CONSTRAINT run_enqueued_has_its_place
        CHECK ((enqueued_task IS NULL) = (queue_place IS NULL)),
    ADD CONSTRAINT run_enqueued_is_not_claimed CHECK (enqueued_task IS NULL
        OR (status IN ('queued', 'failed', 'cancelled', 'interrupted')
            AND (status <> 'queued' OR available_at = 'infinity'))),
    ADD CONSTRAINT run_stopped_was_cancelled CHECK (stopped IS NULL OR status = 'cancelled');

-- A run that waits for its thread is not active on it.
DROP INDEX run_one_active_per_thread;
CREATE UNIQUE INDEX run_one_active_per_thread ON run (tenant_id, thread_id)
    WHERE status IN ('queued', 'running', 'requires_action') AND enqueued_task IS NULL;
CREATE INDEX run_enqueued ON run (tenant_id, thread_id, queue_place)
    WHERE status = 'queued' AND enqueued_task IS NOT NULL;
CREATE INDEX run_rolled_back ON run (tenant_id, thread_id) WHERE rolled_back_at IS NOT NULL;
