#!/usr/bin/env bash
# Fetches the JSON-Schema-Test-Suite out of the source package of Python's `jsonschema`, runs it, and writes docs/JSON_SCHEMA.md.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m pip download --quiet --no-binary jsonschema --no-deps --dest "$folder" jsonschema==4.26.0
tar -xzf "$folder/jsonschema-4.26.0.tar.gz" -C "$folder"
cargo run --quiet --locked --package gateway --example json_schema_suite -- "$folder/jsonschema-4.26.0/json" > "$folder/table.md" || failed=1
mv "$folder/table.md" docs/JSON_SCHEMA.md
if [ "${failed:-0}" = 1 ]; then
    echo "suites: a required case fails; docs/JSON_SCHEMA.md says which" >&2
    exit 1
fi
