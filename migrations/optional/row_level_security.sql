-- Row-level security, a second wall between tenants: a connection of the API or of a run sees the rows of
-- one tenant, even where a statement forgets to ask for it.
--
-- `agentling migrate --row-level-security on` applies this file; it may be applied again at any time, and
-- every later `agentling migrate` does so for tables that are new. `row_level_security_off.sql` takes it
-- back. The role that applies it owns the tables and may create roles, or finds these two made:
--
--   agentling_tenant   sees the rows of the tenant that the setting `agentling.tenant` names; none without.
--   agentling_system   sees all rows: the server's own work, such as claims and sweeps.
DO $$
DECLARE
    role_name text;
    wanted    record;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['agentling_tenant', 'agentling_system'] LOOP
        IF to_regrole(role_name) IS NULL THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                -- Roles belong to all databases of a cluster, and another one was quicker.
                NULL;
            END;
        END IF;
    END LOOP;

    -- Whoever owns a table is held too, and migrations may have to change rows of all tenants.
    IF NOT pg_has_role('agentling_system', 'USAGE') THEN
        EXECUTE format('GRANT agentling_system TO %I', current_user);
    END IF;

    FOR wanted IN
        SELECT c.oid, c.oid::regclass AS name,
               c.relrowsecurity AND c.relforcerowsecurity AS is_forced,
               EXISTS (SELECT
                         FROM pg_attribute a
                        WHERE a.attrelid = c.oid
                          AND a.attname = 'tenant_id'
                          AND NOT a.attisdropped) AS is_of_tenants
          FROM pg_class c
         WHERE c.relnamespace = current_schema()::regnamespace
           AND c.relkind IN ('r', 'p')
         ORDER BY c.relname
    LOOP
        IF wanted.name::text = '_sqlx_migrations' THEN
            -- Whether the schema is up to date.
            EXECUTE format('GRANT SELECT ON %s TO agentling_tenant, agentling_system', wanted.name);
            CONTINUE;
        END IF;
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO agentling_system', wanted.name);
        -- What belongs to no tenant is none of their business.
        CONTINUE WHEN NOT wanted.is_of_tenants;
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO agentling_tenant', wanted.name);
        IF NOT EXISTS (SELECT FROM pg_policy
                        WHERE polrelid = wanted.oid AND polname = 'agentling_tenant') THEN
            EXECUTE format(
                'CREATE POLICY agentling_tenant ON %s TO agentling_tenant
                     USING (tenant_id = nullif(current_setting(''agentling.tenant'', true), ''''))',
                wanted.name);
        END IF;
        IF NOT EXISTS (SELECT FROM pg_policy
                        WHERE polrelid = wanted.oid AND polname = 'agentling_system') THEN
            EXECUTE format('CREATE POLICY agentling_system ON %s TO agentling_system USING (true)',
                           wanted.name);
        END IF;
        IF NOT wanted.is_forced THEN
            EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY',
                           wanted.name);
        END IF;
    END LOOP;
END
$$;
