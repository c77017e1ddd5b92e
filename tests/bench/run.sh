#!/usr/bin/env bash
# run.sh [OPTION...] : builds what is measured as a release, brings up an API server without a node and a
# libvirt host, and measures.
# Options are the bench's own, such as --quiet 60 --proxies 500 --only live.
set -euo pipefail
cd "$(dirname "$0")/../.."
labs=tests/labs/k8s
. "$labs/lib.sh"
cluster bench
need_root

"$labs/install.sh"
"$labs/build.sh"
hypervisors=tests/labs/libvirt
"$hypervisors/install.sh"
"$hypervisors/root.sh"
trap '"$labs/down.sh" "$NAME"; "$hypervisors/down.sh" bench' EXIT
"$labs/up.sh" "$NAME" 20443
FAKE_KVM=1 "$hypervisors/up.sh" bench 94
say "building the operator and the benchmark as releases (5 minutes the first time)"
cargo build --locked --release --workspace --bin epo --bin bench
release=${CARGO_TARGET_DIR:-target}/release
"$release/bench" --epo "$release/epo" --kubeconfig "$ADMIN" \
  --hypervisor "$LAB/run/libvirt-bench" --address 10.99.94.2 "$@"
