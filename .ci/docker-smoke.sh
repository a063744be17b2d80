#!/usr/bin/env bash
# Builds the image, brings the composed service up, runs an agent in it, and takes it down again.
set -euo pipefail
cd "$(dirname "$0")/.."

# Without an engine that answers, this script runs again under one of its own.
if ! docker info >/dev/null 2>&1; then
    exec .ci/docker-engine.sh "$0"
fi
compose() {
    if docker compose version >/dev/null 2>&1; then
        docker compose -p agentling-smoke "$@"
    else
        docker-compose -p agentling-smoke "$@"
    fi
}

export AGENTLING_API_KEY=only-for-the-smoke-test AGENTLING_PORT=${AGENTLING_PORT:-18080}
base=http://127.0.0.1:$AGENTLING_PORT

take_down() {
    local status=$?
    if [ "$status" != 0 ]; then compose logs --tail 50 || true; fi
    compose down --volumes --timeout 35 || true
    exit "$status"
}
trap take_down EXIT

await() {
    local what=$1 began=$SECONDS
    shift
    until "$@"; do
        [ $((SECONDS - began)) -lt 90 ] || { echo "$what: not in time" >&2; return 1; }
        sleep 0.5
    done
    echo "$what after $((SECONDS - began)) s"
}

is_ready() { [ "$(curl -s -o /dev/null -w '%{http_code}' "$base/readyz")" = 200 ]; }

is_healthy() {
    [ "$(docker inspect -f '{{.State.Health.Status}}' "$(compose ps -q agentling)")" = healthy ]
}

call() {
    curl --silent --show-error --fail-with-body --max-time 60 \
        -H "Authorization: Bearer $AGENTLING_API_KEY" -H 'Content-Type: application/json' "$@"
}

# The classic builder has no cache mounts and needs no frontend image; both builders take the file.
began=$SECONDS
docker build -t agentling .
echo "image built in $((SECONDS - began)) s: $(docker image inspect -f '{{.Size}}' agentling) bytes"

compose up -d --no-build
await ready is_ready
await healthy is_healthy
docker inspect -f 'user {{.Config.User}}, read-only {{.HostConfig.ReadonlyRootfs}}, dropped {{.HostConfig.CapDrop}}, {{.HostConfig.SecurityOpt}}, {{.State.Health.Status}}' \
    "$(compose ps -q agentling)"

status=$(curl -s -o /dev/null -w '%{http_code}' "$base/v1/agents")
[ "$status" = 401 ] || { echo "without a key: $status instead of 401" >&2; exit 1; }

echo "--- an agent"
call "$base/v1/agents" -d '{
    "name": "smoke",
    "model": {"provider": "scripted", "name": "smoke", "script": [
        {"text": "I have what I need.",
         "tool_calls": [{"name": "final_answer", "arguments": {"answer": "It works in a container."}}]}
    ]},
    "tools": [{"kind": "builtin", "name": "final_answer"}]
}'
echo
echo "--- a run"
run=$(call "$base/v1/runs" -H 'Prefer: wait=30' -d '{"agent_id": "smoke", "input": "Does it work?"}')
echo "$run"
grep -q '"status": *"completed"' <<<"$run"
grep -q 'It works in a container.' <<<"$run"
id=$(grep -o '"run_[^"]*"' <<<"$run" | head -1 | tr -d '"')

echo "--- its steps, after a restart of the server"
compose restart --timeout 35 agentling
await "ready again" is_ready
call "$base/v1/runs/$id/steps"
echo
echo "docker smoke: ok"
