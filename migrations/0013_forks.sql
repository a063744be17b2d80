-- Forks: threads whose history begins with the stored steps of other threads. And where the memory of a
-- run begins, so that what its model was told can be told again after the thread's memory has moved on.

ALTER TABLE run
    -- `seq` of the first step that the run's model sees. NULL for runs that servers of the version before
    -- accept: theirs is that of their thread, as long as it did not move past them.
    ADD COLUMN memory_from bigint CHECK (memory_from >= 1);

ALTER TABLE thread
    -- The thread that it was forked from and `seq` of the last step that it shares. No foreign key: the
    -- fact outlives that thread, which may go when it stores none of the shared steps itself.
    ADD COLUMN forked_from uuid,
    ADD COLUMN forked_at   bigint CHECK (forked_at >= 1),
    ADD CONSTRAINT thread_forked_somewhere CHECK ((forked_from IS NULL) = (forked_at IS NULL));

-- Which stretches of a fork's history are stored with which other thread, under the same `seq`. A fork of
-- a fork has the segments of both, so that its history is read without following a chain. What is in no
-- segment is stored with the thread itself.
CREATE TABLE thread_segment (
    tenant_id    text    NOT NULL,
    thread_id    uuid    NOT NULL,
    from_seq     bigint  NOT NULL CHECK (from_seq >= 1),
    through_seq  bigint  NOT NULL,
    source_id    uuid    NOT NULL,
    PRIMARY KEY (tenant_id, thread_id, from_seq),
    CONSTRAINT thread_segment_is_some CHECK (through_seq >= from_seq),
    CONSTRAINT thread_segment_of_another CHECK (source_id <> thread_id),
    CONSTRAINT thread_segment_thread FOREIGN KEY (tenant_id, thread_id)
        REFERENCES thread (tenant_id, thread_id) ON DELETE CASCADE,
    -- No CASCADE: a thread does not go while others are made of its steps.
    CONSTRAINT thread_segment_source FOREIGN KEY (tenant_id, source_id)
        REFERENCES thread (tenant_id, thread_id)
);
CREATE INDEX thread_segment_of_source ON thread_segment (tenant_id, source_id);
