-- Calls that wait for sub-runs: the sweep looks for those whose sub-run has ended without having told them so,
-- as one does that a server of a version before sub-runs ends. Waits are few beside all calls there ever were.

CREATE INDEX tool_call_of_sub_run ON tool_call (tenant_id, run_id, call_id) WHERE waits_for = 'sub_runs';

-- The MCP servers that could not be asked for their tools when a run began, as callers are told of them. A
-- server of a version that does not know the column leaves runs with such tools alone.
ALTER TABLE run
    ADD COLUMN unavailable_servers json;

-- What a key leads to is no longer runs alone: `run_id` is the id of whatever the request has made or moved,
-- and of a message the run that it was said to, with its number there.
ALTER TABLE idempotency
    ADD COLUMN number integer;
