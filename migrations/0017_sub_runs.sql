-- Sub-runs: runs that are started by a call of an agent tool of another run, and whose end is the answer
-- that the call waits for.
--
-- A run that waits for nothing but its sub-runs is queued and becomes available when one of them has
-- ended: it goes on by itself, as a run that waits for its thread does. A server of the version before can
-- neither wait so nor tell a parent of an end; such runs and their parents have format 2, which it leaves to
-- newer servers.

ALTER TABLE run
    -- The run and the call that started it. No foreign key: the parent may be erased, and the run stays.
    ADD COLUMN parent_run_id  uuid,
    ADD COLUMN parent_call_id text,
    -- The runs that it was started for, the outermost first and its parent last. It draws on their budgets.
    ADD COLUMN ancestors      uuid[] NOT NULL DEFAULT '{}',
    ADD CONSTRAINT run_parent_is_the_last_ancestor CHECK (
        (parent_run_id IS NULL) = (parent_call_id IS NULL)
        AND parent_run_id IS NOT DISTINCT FROM ancestors[cardinality(ancestors)]);
-- One run a call, whatever happens to those who start it.
CREATE UNIQUE INDEX run_of_call ON run (tenant_id, parent_run_id, parent_call_id)
    WHERE parent_run_id IS NOT NULL;
-- For those whose call was given up.
CREATE INDEX run_sub_active ON run (tenant_id, parent_run_id)
    WHERE parent_run_id IS NOT NULL AND status IN ('queued', 'running', 'requires_action');

ALTER TABLE tool_call
    DROP CONSTRAINT tool_call_waits_for,
    ADD CONSTRAINT tool_call_waits_for
        CHECK (waits_for IN ('tool_results', 'approval', 'in_doubt', 'sub_runs'));

ALTER TABLE call_answer
    DROP CONSTRAINT call_answer_waits_for,
    ADD CONSTRAINT call_answer_waits_for
        CHECK (waits_for IN ('tool_results', 'approval', 'in_doubt', 'sub_runs'));
