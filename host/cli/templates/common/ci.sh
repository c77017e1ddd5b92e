#!/usr/bin/env bash
# What must pass before a change is in, for any CI: tools on the PATH, then `make test`.
set -euo pipefail
cd "$(dirname "$0")"
missing=()
for tool in make {{tools}} "${EPO:-epo}"; do
  command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "ci: not on the PATH: ${missing[*]}; README.md says where they come from" >&2
  exit 2
fi
make lint test
