-- What a sub-run uses counts against the budgets of the threads and agents of the runs that it was started
-- for, as it does against those of the runs themselves.

ALTER TABLE run
    -- The threads and agents of its ancestors. Sub-runs that were started before this have none.
    ADD COLUMN ancestor_owners uuid[] NOT NULL DEFAULT '{}';
