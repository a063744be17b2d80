#!/usr/bin/env bash
# Runs a command with a Docker engine of its own and the base images made from Debian packages and
# the local Rust toolchain, for machines that have no engine and cannot pull. Needs root on Debian.
# What it changes on the machine is undone at the end, apart from the installed packages.
set -euo pipefail

work=${DOCKER_SMOKE_DIR:-$PWD/.docker-smoke}
mkdir -p "$work"

install_engine() {
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        docker.io debootstrap docker-compose iptables runc
}

forward_policy=
engine=
old_forwarding=$(cat /proc/sys/net/ipv4/ip_forward)

# The engine closes forwarding for everybody and leaves it so.
restore_network() {
    iptables -P FORWARD "${forward_policy:-ACCEPT}" || true
    local table chain rule
    for table in filter nat; do
        iptables -t "$table" -S | grep -E -- '-j DOCKER|docker0|br-' | grep '^-A' |
            grep -Ev '^-A DOCKER' | while IFS= read -r rule; do
            # shellcheck disable=SC2086 # the rule is a list of words
            iptables -t "$table" ${rule/#-A/-D} || true
        done
        for chain in $(iptables -t "$table" -S | sed -n 's/^-N \(DOCKER[^ ]*\)$/\1/p'); do
            iptables -t "$table" -F "$chain" || true
        done
        for chain in $(iptables -t "$table" -S | sed -n 's/^-N \(DOCKER[^ ]*\)$/\1/p'); do
            iptables -t "$table" -X "$chain" || true
        done
    done
    ip link delete docker0 2>/dev/null || true
    echo "$old_forwarding" >/proc/sys/net/ipv4/ip_forward
}

stop_engine() {
    if [ -n "$engine" ]; then
        kill "$engine" 2>/dev/null || true
        wait "$engine" 2>/dev/null || true
        restore_network
    fi
    # The images stay in the folder for the next time; the sockets do not.
    rm -rf "$work/exec" "$work/pid"
}

start_engine() {
    forward_policy=$(iptables -S FORWARD | sed -n 's/^-P FORWARD //p')
    dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" \
        --host "unix://$work/docker.sock" >"$work/dockerd.log" 2>&1 &
    engine=$!
    trap stop_engine EXIT
    export DOCKER_HOST=unix://$work/docker.sock
    for _ in $(seq 300); do
        if docker info >/dev/null 2>&1; then return; fi
        kill -0 "$engine" || { tail "$work/dockerd.log" >&2; return 1; }
        sleep 0.2
    done
    return 1
}

has_image() { docker image inspect "$1" >/dev/null 2>&1; }

make_debian() {
    rm -rf "$work/rootfs"
    debootstrap --variant=minbase --include=ca-certificates bookworm "$work/rootfs" >"$work/debootstrap.log"
    # What this machine trusts, for the package and crate sources that it uses.
    cp /etc/ssl/certs/ca-certificates.crt "$work/rootfs/etc/ssl/certs/"
    tar -C "$work/rootfs" -c . | docker import -c 'CMD ["bash"]' - debian:bookworm-slim >/dev/null
    docker tag debian:bookworm-slim debian:bookworm
    rm -rf "$work/rootfs"
}

make_rust() {
    local toolchain
    toolchain=$(rustc --print sysroot)
    rm -rf "$work/rust"
    mkdir -p "$work/rust/toolchain"
    cp -al "$toolchain/bin" "$toolchain/lib" "$work/rust/toolchain/" 2>/dev/null ||
        cp -a "$toolchain/bin" "$toolchain/lib" "$work/rust/toolchain/"
    cat >"$work/rust/Dockerfile" <<'END'
FROM debian:bookworm
RUN apt-get update && apt-get install -y --no-install-recommends \
    gcc g++ libc6-dev make pkg-config git && rm -rf /var/lib/apt/lists/*
COPY toolchain /usr/local/rustup/toolchains/local
RUN for name in cargo rustc rustdoc; do \
    ln -s /usr/local/rustup/toolchains/local/bin/$name /usr/local/bin/$name; done
ENV CARGO_HOME=/usr/local/cargo SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
END
    docker build -q -t rust:1.95-bookworm "$work/rust"
    rm -rf "$work/rust"
}

# As much of the official image as the compose file uses.
make_postgres() {
    mkdir -p "$work/postgres"
    cat >"$work/postgres/entrypoint.sh" <<'END'
#!/bin/bash
set -euo pipefail
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
data=/var/lib/postgresql/data
as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
mkdir -p "$data" /var/run/postgresql
chown postgres: "$data" /var/run/postgresql
chmod 700 "$data"
cd /
if [ ! -e "$data/PG_VERSION" ]; then
    install -m 600 -o postgres /dev/stdin /tmp/password <<<"$POSTGRES_PASSWORD"
    as_postgres initdb -D "$data" -U "$POSTGRES_USER" --auth-host=scram-sha-256 \
        --auth-local=trust --pwfile=/tmp/password --encoding=UTF8 --locale=C.UTF-8
    rm /tmp/password
    as_postgres pg_ctl -D "$data" -o "-c listen_addresses=" -w start
    as_postgres createdb -U "$POSTGRES_USER" "$POSTGRES_DB"
    as_postgres pg_ctl -D "$data" -w stop
    echo "host all all all scram-sha-256" >> "$data/pg_hba.conf"
fi
exec setpriv --reuid=postgres --regid=postgres --clear-groups \
    "$(command -v postgres)" -D "$data" -c listen_addresses='*'
END
    cat >"$work/postgres/Dockerfile" <<'END'
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends postgresql \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s /usr/lib/postgresql/*/bin/pg_isready /usr/local/bin/pg_isready
COPY entrypoint.sh /usr/local/bin/entrypoint.sh
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT ["/usr/local/bin/entrypoint.sh"]
END
    chmod 755 "$work/postgres/entrypoint.sh"
    docker build -q -t postgres:16 "$work/postgres"
}

if ! command -v dockerd >/dev/null || ! command -v debootstrap >/dev/null ||
    ! command -v docker-compose >/dev/null; then
    install_engine
fi
start_engine
has_image debian:bookworm || make_debian
has_image rust:1.95-bookworm || make_rust
make_postgres
"$@"
