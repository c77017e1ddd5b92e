#!/usr/bin/env bash
# run.sh [OPTION...] : builds what is measured as a release, brings up an API server without a node, and measures.
# Options are the bench's own, such as --quiet 60 --proxies 500 --only live.
set -euo pipefail
cd "$(dirname "$0")/../.."
labs=tests/labs/k8s
. "$labs/lib.sh"
cluster bench
need_root

"$labs/install.sh"
"$labs/build.sh"
"$labs/up.sh" "$NAME" 20443
trap '"$labs/down.sh" "$NAME"' EXIT
say "building the operator and the benchmark as releases (5 minutes the first time)"
cargo build --locked --release --workspace --bin epo --bin bench
release=${CARGO_TARGET_DIR:-target}/release
"$release/bench" --epo "$release/epo" --kubeconfig "$ADMIN" "$@"
