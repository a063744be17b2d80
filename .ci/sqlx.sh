#!/usr/bin/env bash
# Checks every statement against DATABASE_URL and writes the findings to the given folder.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p "$1"
out=$(cd "$1" && pwd)
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT

# The macros run when the crate is compiled, and only then.
touch src/lib.rs
SQLX_OFFLINE=false SQLX_OFFLINE_DIR=$fresh cargo check --locked --all-targets --quiet
touch src/lib.rs

rm -f "$out"/query-*.json
cp "$fresh"/query-*.json "$out"/
