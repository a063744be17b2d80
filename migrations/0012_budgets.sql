-- Budgets: what runs may use up, what they have used, and what is set aside for calls under way.
--
-- A server of the version before begins turns without setting anything aside; what its runs used is
-- not counted.

CREATE TABLE budget (
    tenant_id       text        NOT NULL,
    scope           text        NOT NULL CONSTRAINT budget_scope
        CHECK (scope IN ('tenant', 'key', 'agent', 'thread', 'run')),
    -- What it is a budget of; nil for the tenant itself.
    owner_id        uuid        NOT NULL,
    -- Costs are counted in millionths of the currency that prices are given in.
    resource        text        NOT NULL CONSTRAINT budget_resource
        CHECK (resource IN ('tokens', 'cost', 'turns', 'tool_calls')),
    period          text        NOT NULL CONSTRAINT budget_period
        CHECK (period IN ('total', 'day', 'month')),
    -- When counting begins anew.
    period_ends_at  timestamptz,
    bound           bigint      NOT NULL CHECK (bound >= 0),
    used            bigint      NOT NULL DEFAULT 0,
    reserved        bigint      NOT NULL DEFAULT 0 CHECK (reserved >= 0),
    -- What was used beyond the bound, because a call took more than could be foreseen.
    overrun         bigint      NOT NULL DEFAULT 0 CHECK (overrun >= 0),
    -- So that the budget of a thread or a run goes with it.
    thread_id       uuid        GENERATED ALWAYS AS
        (CASE WHEN scope = 'thread' THEN owner_id END) STORED,
    run_id          uuid        GENERATED ALWAYS AS
        (CASE WHEN scope = 'run' THEN owner_id END) STORED,
    PRIMARY KEY (tenant_id, scope, owner_id, resource),
    CONSTRAINT budget_thread FOREIGN KEY (tenant_id, thread_id)
        REFERENCES thread (tenant_id, thread_id) ON DELETE CASCADE,
    CONSTRAINT budget_run FOREIGN KEY (tenant_id, run_id)
        REFERENCES run (tenant_id, run_id) ON DELETE CASCADE,
    -- What keeps every commit within every budget.
    CONSTRAINT budget_is_kept CHECK (used + reserved <= bound),
    CONSTRAINT budget_covers_what_is_reserved CHECK (used >= 0),
    CONSTRAINT budget_period_has_an_end CHECK ((period = 'total') = (period_ends_at IS NULL))
);
CREATE INDEX budget_of_thread ON budget (tenant_id, thread_id) WHERE thread_id IS NOT NULL;
CREATE INDEX budget_of_run ON budget (tenant_id, run_id) WHERE run_id IS NOT NULL;

-- What a run has set aside of a budget, and what it has used of it: the next worker of a run whose
-- worker was lost finds it here.
CREATE TABLE budget_draw (
    tenant_id  text    NOT NULL,
    run_id     uuid    NOT NULL,
    scope      text    NOT NULL,
    owner_id   uuid    NOT NULL,
    resource   text    NOT NULL,
    reserved   bigint  NOT NULL CHECK (reserved >= 0),
    spent      bigint  NOT NULL CHECK (spent >= 0),
    PRIMARY KEY (tenant_id, run_id, scope, owner_id, resource),
    CONSTRAINT budget_draw_run FOREIGN KEY (tenant_id, run_id)
        REFERENCES run (tenant_id, run_id) ON DELETE CASCADE,
    CONSTRAINT budget_draw_budget FOREIGN KEY (tenant_id, scope, owner_id, resource)
        REFERENCES budget (tenant_id, scope, owner_id, resource) ON DELETE CASCADE
);
CREATE INDEX budget_draw_of_budget ON budget_draw (tenant_id, scope, owner_id, resource);

-- What a run waits for that found no room. No reference to the budget: where that is gone, the run
-- has to go on.
CREATE TABLE budget_wait (
    tenant_id  text        NOT NULL,
    run_id     uuid        NOT NULL,
    scope      text        NOT NULL,
    owner_id   uuid        NOT NULL,
    resource   text        NOT NULL,
    needs      bigint      NOT NULL CHECK (needs >= 0),
    since      timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_id, scope, owner_id, resource),
    CONSTRAINT budget_wait_run FOREIGN KEY (tenant_id, run_id)
        REFERENCES run (tenant_id, run_id) ON DELETE CASCADE
);

ALTER TABLE run
    -- Whether it draws on any budget. It stands in this row because a statement that waited for the
    -- row reads it anew.
    ADD COLUMN budgeted boolean NOT NULL DEFAULT false,
    -- The run's own bounds as they were last set.
    ADD COLUMN budget   json,
    -- The key that it was started with; NULL for the operator's own.
    ADD COLUMN key_id   uuid,
    -- What its calls of models cost, as far as their prices are known.
    ADD COLUMN cost     bigint CHECK (cost >= 0);
