-- Messages to a run that is under way. They wait until the run's next turn begins.

ALTER TABLE run
    -- All that were ever added, and those that have become steps. Both stand in the run's own row: a
    -- statement that waited for the row reads them anew, which it would not do in other tables.
    ADD COLUMN n_messages       integer NOT NULL DEFAULT 0 CHECK (n_messages >= 0),
    ADD COLUMN n_messages_taken integer NOT NULL DEFAULT 0 CHECK (n_messages_taken >= 0),
    ADD CONSTRAINT run_takes_messages_that_are CHECK (n_messages_taken <= n_messages),
    ADD CONSTRAINT run_completed_leaves_no_message CHECK (status <> 'completed'
        OR n_messages_taken = n_messages);

CREATE TABLE run_message (
    tenant_id   text        NOT NULL,
    run_id      uuid        NOT NULL,
    number      integer     NOT NULL CHECK (number >= 1),
    voice       text        NOT NULL CONSTRAINT run_message_voice
        CHECK (voice IN ('user', 'system')),
    text        text        NOT NULL,
    created_at  timestamptz NOT NULL,
    -- `seq` of the step that it has become; NULL while it waits.
    step_seq    bigint      CHECK (step_seq >= 2),
    PRIMARY KEY (tenant_id, run_id, number),
    CONSTRAINT run_message_run FOREIGN KEY (tenant_id, run_id)
        REFERENCES run (tenant_id, run_id) ON DELETE CASCADE
);
