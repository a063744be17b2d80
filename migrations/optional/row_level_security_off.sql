-- Takes row-level security back: `agentling migrate --row-level-security off`. The roles and what they may
-- do stay, for other databases may use them.
DO $$
DECLARE
    wanted record;
BEGIN
    FOR wanted IN
        SELECT c.oid::regclass AS name
          FROM pg_class c
         WHERE c.relnamespace = current_schema()::regnamespace
           AND c.relkind IN ('r', 'p')
           AND c.relrowsecurity
         ORDER BY c.relname
    LOOP
        EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY',
                       wanted.name);
        EXECUTE format('DROP POLICY IF EXISTS agentling_tenant ON %s', wanted.name);
        EXECUTE format('DROP POLICY IF EXISTS agentling_system ON %s', wanted.name);
    END LOOP;
END
$$;
