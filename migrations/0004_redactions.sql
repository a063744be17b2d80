-- How often each redaction rule took something out of what the steps of a run tell a model.

ALTER TABLE run
    ADD COLUMN redactions json NOT NULL DEFAULT '{}';
