-- Long-term memory: items outside of any thread, by namespace and key, with all of their versions.

-- An item as it is now. Names are compared byte by byte, so that lists have one order whatever the locale of
-- the database. The primary key serves prefixes of namespaces, too: arrays are ordered part by part and a
-- NULL comes after every text, so that all namespaces under `{a,b}` stand between `{a,b}` and `{a,b,NULL}`.
CREATE TABLE memory_item (
    tenant_id   text        NOT NULL,
    namespace   text[]      COLLATE "C" NOT NULL CHECK (cardinality(namespace) BETWEEN 1 AND 8),
    key         text        COLLATE "C" NOT NULL CHECK (char_length(key) BETWEEN 1 AND 128),
    -- Grows by one with each value and with each deletion, and never goes back.
    version     integer     NOT NULL CHECK (version >= 1),
    -- The value for those who look for it, NULL where there is none: the item is deleted, or its newest
    -- version is redacted. `jsonb` reorders members and respells numbers, so that the value itself stands as
    -- text with its version; this copy is made from numbers that a double holds, which `jsonb` holds as well.
    -- Equality of members is judged row by row within the range of the namespace: an index over all of
    -- `document` would be as large as the values, and could begin neither with the tenant nor with the
    -- namespace.
    document    jsonb,
    -- The words of the key and of the strings in the value, of no language.
    words       tsvector    GENERATED ALWAYS AS (
        setweight(to_tsvector('simple', key), 'A')
        || jsonb_to_tsvector('simple', document, '["string"]')) STORED,
    -- What the caller's model made of it. It is a plain array, so that the schema needs no extension; where
    -- `vector` is installed, arrays are compared as vectors.
    embedding   real[]      CHECK (cardinality(embedding) BETWEEN 1 AND 4096),
    -- When it was put first, or again after it had been deleted.
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    -- From then on nobody sees it.
    expires_at  timestamptz,
    PRIMARY KEY (tenant_id, namespace, key)
);
CREATE INDEX memory_item_words ON memory_item USING gin (words);
CREATE INDEX memory_item_expiry ON memory_item (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX memory_item_gone ON memory_item (updated_at) WHERE document IS NULL;

CREATE TABLE memory_item_version (
    tenant_id    text        NOT NULL,
    namespace    text[]      COLLATE "C" NOT NULL,
    key          text        COLLATE "C" NOT NULL,
    version      integer     NOT NULL CHECK (version >= 1),
    -- The value as it was spelt. NULL where it was redacted, and of a deletion.
    value        text,
    -- The call of a tool that put it, by which a call that is made again is known.
    call_id      text,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,
    redacted_at  timestamptz,
    -- The id of the key that it was redacted with; NULL without one.
    redacted_by  text,
    PRIMARY KEY (tenant_id, namespace, key, version),
    CONSTRAINT memory_item_version_item FOREIGN KEY (tenant_id, namespace, key)
        REFERENCES memory_item (tenant_id, namespace, key) ON DELETE CASCADE,
    CONSTRAINT memory_item_version_redacted CHECK (redacted_at IS NULL OR value IS NULL),
    CONSTRAINT memory_item_version_redacted_by CHECK (redacted_by IS NULL OR redacted_at IS NOT NULL)
);
-- One call puts one version.
CREATE UNIQUE INDEX memory_item_version_of_call ON memory_item_version (tenant_id, call_id)
    WHERE call_id IS NOT NULL;
CREATE INDEX memory_item_version_expiry ON memory_item_version (expires_at)
    WHERE expires_at IS NOT NULL;
CREATE INDEX memory_item_version_age ON memory_item_version (created_at);

INSERT INTO chore (name, due_at) VALUES ('expired_items', now()), ('item_versions', now());
