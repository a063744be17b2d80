#!/usr/bin/env bash
# Does what a newcomer does: `make run`, wait for the finished run, then try the commands that it
# printed and the curl commands of the README, and stop. Run it in a clean clone.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
# As root, PostgreSQL runs as somebody else and must reach its data.
chmod 755 "$dir"
export AGENTLING_DATA_DIR=$dir/data AGENTLING_LISTEN=127.0.0.1:0
demo=

stop() {
    if [ -n "$demo" ] && kill -0 "$demo" 2>/dev/null; then
        kill -TERM -- "-$demo" || true
        wait "$demo" || true
    fi
}
trap 'stop; rm -rf "$dir"' EXIT

fail() {
    echo "quick start: $1; the output of \`make run\`:" >&2
    cat "$dir/out" >&2
    exit 1
}

# The commands to try are lines of their own that begin with `curl`.
printed_commands() { sed -n 's/^[[:space:]]*\(curl .*\)$/\1/p' "$dir/out"; }

setsid make run >"$dir/out" 2>&1 </dev/null &
demo=$!
deadline=$((SECONDS + 1500))
until [ "$(printed_commands | wc -l)" -ge 3 ]; do
    kill -0 "$demo" 2>/dev/null || fail "the server ended"
    [ "$SECONDS" -lt "$deadline" ] || fail "nothing to try was printed in time"
    sleep 0.5
done
grep -q completed "$dir/out" || fail "no finished run in the transcript"
cat "$dir/out"

check() {
    echo "+ $1"
    local answer
    answer=$(timeout 60 bash -euo pipefail -c "$1" 2>&1) || fail "a command failed: $1: $answer"
    printf '%s\n' "$answer" | head -c 2000
    echo
    if grep -q '"type": *"/problems/' <<<"$answer"; then fail "a command was refused: $1"; fi
}

while IFS= read -r command; do check "$command"; done < <(printed_commands)

# The README shows the default address. Its blocks are one session: a later one may use what an
# earlier one has set.
address=$(printed_commands | grep -om1 '127\.0\.0\.1:[0-9]*')
session=$(awk '
    /^```sh$/ { inside = 1; block = ""; next }
    /^```$/ { if (inside && block ~ /(^|\n)[^\n]*curl /) printf "%s", block; inside = 0; next }
    inside { block = block $0 "\n" }' README.md | sed "s/\(localhost\|127\.0\.0\.1\):8080/$address/g")
if [ -n "$session" ]; then check "$session"; fi

stop
demo=
if [ -e "$dir/data/postgres/postmaster.pid" ]; then fail "the private Postgres outlived the server"; fi
echo "quick start: the run finished, and the commands work as printed"
