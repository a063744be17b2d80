#!/usr/bin/env bash
# Makes sure that the PostgreSQL programs are installed, by apt-get, dnf, apk or brew if need be.
# With --print-bin it prints their directory.
set -euo pipefail

# The directory with postgres and initdb, looked for in the same places as the server does.
find_bin() {
    if [ -n "${AGENTLING_PG_BIN:-}" ]; then
        echo "$AGENTLING_PG_BIN"
        return
    fi
    local on_path dir
    on_path=$(command -v postgres || true)
    for dir in \
        "${on_path:+$(dirname "$(readlink -f "$on_path" 2>/dev/null || echo "$on_path")")}" \
        $(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/libexec/postgresql* \
            /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin \
            2>/dev/null | sort -rV) \
        /usr/bin /usr/local/bin /opt/homebrew/bin; do
        if [ -n "$dir" ] && [ -x "$dir/postgres" ] && [ -x "$dir/initdb" ]; then
            echo "$dir"
            return
        fi
    done
    return 1
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# Debian's package makes and starts a server of its own, which nobody asked for here.
install_by_apt() {
    local no_server=/etc/postgresql-common/createcluster.d/agentling.conf
    as_root apt-get update
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        postgresql-common
    as_root mkdir -p "$(dirname "$no_server")"
    echo "create_main_cluster = false" | as_root tee "$no_server" >/dev/null
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        postgresql || { as_root rm -f "$no_server"; return 1; }
    as_root rm -f "$no_server"
}

install_programs() {
    echo "The PostgreSQL programs are missing: installing them." >&2
    if command -v apt-get >/dev/null; then
        install_by_apt
    elif command -v brew >/dev/null; then
        brew install postgresql@17
    elif command -v dnf >/dev/null; then
        as_root dnf install -y postgresql-server postgresql
    elif command -v apk >/dev/null; then
        as_root apk add postgresql postgresql-client
    else
        echo "There is no apt-get, brew, dnf or apk: install PostgreSQL by hand," \
            "or set AGENTLING_PG_BIN to the directory of its programs." >&2
        return 1
    fi
}

find_bin >/dev/null || install_programs >&2
bin=$(find_bin)
if [ "${1:-}" = --print-bin ]; then
    echo "$bin"
fi
