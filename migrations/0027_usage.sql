-- What calls of models took: a row for each recorded call of which that is known, written in the same
-- commit as its record and so counted once. Rows of their own, because they outlive the records: a history
-- that is swept or erased was paid for all the same. They say how much, when, of which model, by which agent
-- and key, and nothing of what was said. A counter by day would be smaller, and the one row that all
-- runs of a tenant wait for.
--
-- A server of the version before writes none; what it does beside this one is not counted.
CREATE TABLE model_usage (
    tenant_id    text        NOT NULL,
    request_id   uuid        NOT NULL,
    -- No foreign keys: what it belongs to may be gone. NULL for a summary that a caller asked for.
    run_id       uuid,
    agent_id     uuid,
    key_id       uuid,
    sent_at      timestamptz NOT NULL,
    -- No CHECK: a provider is added without touching the schema.
    provider     text        NOT NULL,
    model        text        NOT NULL,
    input        bigint      NOT NULL CHECK (input >= 0),
    output       bigint      NOT NULL CHECK (output >= 0),
    cache_read   bigint      NOT NULL CHECK (cache_read >= 0),
    cache_write  bigint      NOT NULL CHECK (cache_write >= 0),
    reasoning    bigint      NOT NULL CHECK (reasoning >= 0),
    -- In millionths, at the price of the moment; NULL where there was none.
    cost         bigint      CHECK (cost >= 0),
    PRIMARY KEY (tenant_id, request_id)
);
CREATE INDEX model_usage_by_time ON model_usage (tenant_id, sent_at);
-- For the sweep, which goes by age alone.
CREATE INDEX model_usage_age ON model_usage (sent_at);

INSERT INTO chore (name, due_at) VALUES ('usage', now());
