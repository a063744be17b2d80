-- MCP servers that tenants register, and the tools of servers that runs were given.

CREATE TABLE mcp_server (
    tenant_id   text        NOT NULL,
    server_id   uuid        NOT NULL,
    -- What agents refer to it by.
    name        text        NOT NULL,
    -- What callers say of it; secrets stand in it by their names only.
    spec        json        NOT NULL,
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, server_id),
    CONSTRAINT mcp_server_name UNIQUE (tenant_id, name)
);
CREATE INDEX mcp_server_newest ON mcp_server (tenant_id, created_at DESC, server_id DESC);

-- The tools that a run was given when it began. The row is written once, before the run's first request,
-- and goes with the run.
CREATE TABLE run_pin (
    tenant_id   text        NOT NULL,
    run_id      uuid        NOT NULL,
    thread_id   uuid        NOT NULL,
    -- JSON as text: what servers say may hold what the type json refuses.
    pins        text        NOT NULL,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_id),
    CONSTRAINT run_pin_run FOREIGN KEY (tenant_id, run_id)
        REFERENCES run (tenant_id, run_id) ON DELETE CASCADE
);
-- What the run before on a thread was given.
CREATE INDEX run_pin_of_thread ON run_pin (tenant_id, thread_id, created_at DESC);
