#!/bin/sh
# Runs a command with AGENTLING_MCP_SERVERS set to a folder with MCP servers that others wrote: the reference
# servers of npm, and the Python package. They are installed where AGENTLING_MCP_CACHE says, or else into a
# folder that goes away with the command. Where that cannot be done, this says `skipped: ` and why, and
# succeeds.
set -eu

skip() { echo "skipped: $1"; exit 0; }

command -v node >/dev/null && command -v npm >/dev/null || skip "there is no node here"
if [ -n "${AGENTLING_MCP_CACHE:-}" ]; then
    folder=$AGENTLING_MCP_CACHE
    mkdir -p "$folder"
else
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi

if [ ! -e "$folder/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js" ]; then
    timeout 300 npm install --no-audit --no-fund --silent --prefix "$folder/npm" \
        @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem \
        || skip "the servers of npm cannot be installed"
fi
if [ ! -e "$folder/venv/bin/uvicorn" ]; then
    python3 -m venv "$folder/venv" || skip "there is no virtual environment to be had"
    timeout 300 "$folder/venv/bin/python" -m pip --disable-pip-version-check install --quiet mcp==2.3.0 \
        || skip "the Python package cannot be installed"
fi
AGENTLING_MCP_SERVERS=$folder "$@"
