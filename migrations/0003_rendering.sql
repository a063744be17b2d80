-- What rendering a thread again depends on, and the steps it has learnt to render.

ALTER TABLE thread
    DROP CONSTRAINT thread_framing_policy,
    ADD CONSTRAINT thread_framing_policy
        CHECK (framing_policy IN ('frames', 'frames_and_notes')),
    ADD COLUMN announce text NOT NULL DEFAULT 'when_needed' CONSTRAINT thread_announce
        CHECK (announce IN ('never', 'when_needed', 'always')),
    -- The data tags that the operator had registered when the thread was created, sorted.
    ADD COLUMN framing_tags text[] NOT NULL DEFAULT '{}';

ALTER TABLE step
    DROP CONSTRAINT step_kind,
    ADD CONSTRAINT step_kind
        CHECK (kind IN ('task', 'action', 'retry', 'system', 'context', 'tools', 'summary', 'final'));
