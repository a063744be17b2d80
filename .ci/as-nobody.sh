#!/usr/bin/env bash
# Runs tests as the user 65534, who owns nothing and has no home: those of the library that match the
# first argument, and those of whole servers that match the others.
set -euo pipefail
cd "$(dirname "$0")/.."

find_executable='
import json, sys
kind, name = sys.argv[1:3]
for line in sys.stdin:
    message = json.loads(line) if line.startswith("{") else {}
    target = message.get("target", {})
    if message.get("executable") and target["kind"] == [kind] and target["name"] == name:
        print(message["executable"])
'
built=$(cargo test --locked --lib --test it --no-run --quiet --message-format=json)
executable() { python3 -c "$find_executable" "$@" <<<"$built"; }

# The build folder may be closed to others.
open=$(mktemp -d)
trap 'rm -rf "$open"' EXIT
chmod 755 "$open"
cp "$(executable lib agentling)" "$open/lib"
cp "$(executable test it)" "$open/it"
cd /
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups env -u HOME "$@"; }
as_nobody "$open/lib" "$1"
shift
as_nobody "$open/it" "$@"
