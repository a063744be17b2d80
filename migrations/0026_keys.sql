-- Keys by the API: which key took the place of which, and lists of them.

-- The key that this one was made from when that was rotated. Nothing refers to keys, so that a database
-- can lose old ones; hence no foreign key.
ALTER TABLE api_key ADD COLUMN replaces uuid;
CREATE INDEX api_key_newest ON api_key (tenant_id, created_at DESC, key_id DESC);

-- The secret of a key is stored nowhere, so a repeated request is answered without it.
COMMENT ON COLUMN idempotency.run_id IS 'the id of what the request led to: a run, a thread, a key and so on';
