#!/usr/bin/env bash
# Runs a command with DATABASE_URL set to a migrated database that goes away with the command.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
bin=$("$root/.ci/postgres.sh" --print-bin)
dir=$(mktemp -d /tmp/agentling-throwaway.XXXXXX)
server=

# PostgreSQL refuses root.
run_as=()
if [ "$(id -u)" = 0 ]; then
    user=$(id -u postgres 2>/dev/null || echo 65534)
    group=$(id -g postgres 2>/dev/null || echo 65534)
    chown "$user:$group" "$dir"
    run_as=(setpriv "--reuid=$user" "--regid=$group" --clear-groups)
fi
as_postgres() {
    (cd / && exec ${run_as[@]+"${run_as[@]}"} env LC_ALL=C.UTF-8 "$@")
}

clean_up() {
    if [ -n "$server" ]; then
        as_postgres "$bin/pg_ctl" -D "$dir/data" -m fast -w stop >/dev/null || true
        wait "$server" || true
    fi
    rm -rf "$dir"
}
trap clean_up EXIT

as_postgres "$bin/initdb" -D "$dir/data" -U agentling --auth=trust --encoding=UTF8 --no-sync \
    >"$dir/initdb.log"
as_postgres "$bin/postgres" -D "$dir/data" -k "$dir" -c listen_addresses= -c fsync=off \
    >"$dir/postgres.log" 2>&1 &
server=$!

psql=("$bin/psql" -h "$dir" -U agentling -X -q -v ON_ERROR_STOP=1)
for _ in $(seq 300); do
    if as_postgres "${psql[@]}" -d postgres -c 'SELECT' >/dev/null 2>&1; then break; fi
    kill -0 "$server" || { cat "$dir/postgres.log" >&2; exit 1; }
    sleep 0.1
done
as_postgres "${psql[@]}" -d postgres -c 'CREATE DATABASE agentling'
# By psql and not by the server: a statement that does not compile must not keep it from being
# checked against the schema.
for migration in "$root"/migrations/*.sql; do
    as_postgres "${psql[@]}" -d agentling -1 -f - <"$migration"
done

DATABASE_URL="postgres://agentling@localhost/agentling?host=$dir&port=5432" "$@"
