-- Several servers on one database: whose run is next, what each run's journal takes, and what went
-- wrong when a run was last lost.

ALTER TABLE run
    -- What a worker must know to go on with the run. Workers leave what they do not know to newer ones.
    ADD COLUMN format     smallint NOT NULL DEFAULT 1 CHECK (format >= 1),
    -- Why the last worker that held the run did not end it, for the failure of a run that is given up.
    ADD COLUMN last_fault text     CONSTRAINT run_last_fault
        CHECK (last_fault IN ('worker_lost', 'panicked', 'store_failed', 'drained'));

-- Tenants are served by turns, so each tenant's queue is read by itself. The index that it replaces
-- stays for servers of the version before.
CREATE INDEX run_waiting ON run (tenant_id, available_at) WHERE status = 'queued';
