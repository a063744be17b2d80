-- Blocks of context: a step sets one or withdraws it.

ALTER TABLE step
    DROP CONSTRAINT step_kind,
    ADD CONSTRAINT step_kind
        CHECK (kind IN ('task', 'action', 'retry', 'system', 'context', 'final'));

-- What a block says is in its last step.
CREATE INDEX step_of_context ON step (tenant_id, thread_id, seq) WHERE kind = 'context';
