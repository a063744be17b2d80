-- What is kept of the request that a reply answers: how long it was, how much of it began as the
-- request before it on its thread, and what it takes to render it again and to know that it is the same.

ALTER TABLE step
    ADD COLUMN request_bytes        bigint,
    -- NULL where the request before it is not known any more.
    ADD COLUMN request_shared_bytes bigint,
    ADD COLUMN request_sha256       bytea,
    -- `seq` of the first step that the model was told.
    ADD COLUMN request_from         bigint,
    ADD CONSTRAINT step_request_of_an_action CHECK (CASE
        WHEN request_sha256 IS NULL THEN
            request_bytes IS NULL AND request_shared_bytes IS NULL AND request_from IS NULL
        ELSE kind = 'action'
            AND octet_length(request_sha256) = 32
            AND coalesce(request_bytes >= 0, false)
            AND coalesce(request_shared_bytes, 0) BETWEEN 0 AND request_bytes
            AND coalesce(request_from BETWEEN 1 AND seq, false)
        END);
