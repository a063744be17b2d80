#!/usr/bin/env bash
# Makes SDKs of the kept OpenAPI document by two generators of others, for Python and for TypeScript, checks that
# no operation is missing, and makes the same journey through the API with each. What is installed goes into a
# folder that goes away again, or where AGENTLING_SDK_CACHE says. Where it cannot be had, this says `skipped: `
# and why, and succeeds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
document=$here/../../openapi/openapi.json

skip() { echo "skipped: $1"; exit 0; }

command -v node >/dev/null && command -v npm >/dev/null || skip "there is no node here"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
installed=${AGENTLING_SDK_CACHE:-$work/installed}
mkdir -p "$installed/npm"

began=$SECONDS
if [ ! -e "$installed/npm/node_modules/.bin/tsc" ]; then
    timeout 240 npm install --no-audit --no-fund --silent --prefix "$installed/npm" \
        typescript@5 @hey-api/openapi-ts@0.95.0 @types/node@20 || skip "the generator cannot be had from npm"
fi
if [ ! -e "$installed/venv/bin/openapi-python-client" ]; then
    python3 -m venv "$installed/venv" || skip "there is no virtual environment to be had"
    timeout 240 "$installed/venv/bin/python" -m pip --disable-pip-version-check install --quiet --retries 1 \
        --timeout 15 openapi-python-client==0.29.1 || skip "the generator cannot be had from PyPI"
fi
echo "installed in $((SECONDS - began)) s"
began=$SECONDS

# Python: models and one module an operation.
cat >"$work/python.yml" <<'YML'
package_name_override: agentling_client
project_name_override: agentling-client
post_hooks: []
YML
mkdir "$work/python"
"$installed/venv/bin/openapi-python-client" generate --path "$document" --config "$work/python.yml" \
    --output-path "$work/python/agentling_client" --meta none >"$work/python.log" 2>&1 \
    || { cat "$work/python.log"; exit 1; }
"$installed/venv/bin/python" -m compileall -q "$work/python"
# Text beside JSON in the body of a request is the one thing that this generator leaves out.
if grep '^\(Unable\|WARNING\|ERROR\|Unsupported\|Could not\|Cannot\)' "$work/python.log" \
    | grep -v '^WARNING parsing \(POST\|PUT\) /v1/skills.* within skills\.$\|^Unsupported content type text/markdown$'; then
    echo "the Python generator left something out"; exit 1
fi

# TypeScript: functions, types and streams.
mkdir "$work/typescript"
cp "$here/journey.ts" "$work/typescript/"
ln -s "$installed/npm/node_modules" "$work/typescript/node_modules"
cat >"$work/typescript/tsconfig.json" <<'JSON'
{"compilerOptions": {"strict": true, "noUncheckedIndexedAccess": true, "target": "ES2022", "esModuleInterop": true, "module": "CommonJS",
 "moduleResolution": "Node10", "lib": ["ES2023", "DOM", "DOM.Iterable"], "types": ["node"], "outDir": "out"},
 "include": ["gen", "journey.ts"]}
JSON
(cd "$work/typescript" && node_modules/.bin/openapi-ts --silent --input "$document" --output gen \
    --plugins @hey-api/client-fetch @hey-api/sdk @hey-api/typescript && node_modules/.bin/tsc)

python3 "$here/complete.py" "$document" "$work/python/agentling_client" "$work/typescript/gen/sdk.gen.ts"
echo "generated and checked in $((SECONDS - began)) s"

journeys() {
    PYTHONPATH=$work/python "$installed/venv/bin/python" "$here/journey.py"
    node "$work/typescript/out/journey.js"
}
export -f journeys
export work installed here
"$here/../with-server.py" bash -euo pipefail -c journeys
