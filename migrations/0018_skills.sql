-- Skills: instructions and tools that an agent takes up when a task calls for them.

CREATE TABLE skill (
    tenant_id    text        NOT NULL,
    skill_id     uuid        NOT NULL,
    name         text        NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9-]{0,63}$'),
    version      integer     NOT NULL CHECK (version >= 1),
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    archived_at  timestamptz,
    PRIMARY KEY (tenant_id, skill_id)
);
-- An archived skill gives its name back.
CREATE UNIQUE INDEX skill_name ON skill (tenant_id, name) WHERE archived_at IS NULL;
-- Agents that name a skill find it after it was archived, too.
CREATE INDEX skill_once_named ON skill (tenant_id, name);
CREATE INDEX skill_newest ON skill (tenant_id, created_at DESC, skill_id DESC);

CREATE TABLE skill_version (
    tenant_id   text        NOT NULL,
    skill_id    uuid        NOT NULL,
    version     integer     NOT NULL CHECK (version >= 1),
    spec        json        NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, skill_id, version),
    CONSTRAINT skill_version_skill FOREIGN KEY (tenant_id, skill_id)
        REFERENCES skill (tenant_id, skill_id)
);

-- The versions that a run has, from when it was accepted to its end and for every time that it is driven
-- again: a skill that gets a new version changes no run.
CREATE TABLE run_skill (
    tenant_id  text    NOT NULL,
    run_id     uuid    NOT NULL,
    -- The place in the agent's list, from 1.
    place      integer NOT NULL CHECK (place >= 1),
    skill_id   uuid    NOT NULL,
    version    integer NOT NULL,
    PRIMARY KEY (tenant_id, run_id, place),
    CONSTRAINT run_skill_run FOREIGN KEY (tenant_id, run_id)
        REFERENCES run (tenant_id, run_id) ON DELETE CASCADE,
    CONSTRAINT run_skill_version FOREIGN KEY (tenant_id, skill_id, version)
        REFERENCES skill_version (tenant_id, skill_id, version)
);
