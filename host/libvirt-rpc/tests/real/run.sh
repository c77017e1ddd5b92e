#!/usr/bin/env bash
# run.sh : as root, the tests beside this on a libvirt host of the lab, which ends afterwards.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
labs=tests/labs/libvirt

$labs/install.sh
$labs/root.sh
$labs/tiny.sh
trap '$labs/down.sh rpc' EXIT
$labs/up.sh rpc 90
lab=${LAB_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/egress-proxies-operator/lab}
export LIBVIRT_REMOTE_SOCKET=$lab/run/libvirt-rpc/libvirt-sock
export LIBVIRT_REMOTE_GUEST=$lab/libvirt/tiny.qcow2 LIBVIRT_REMOTE_BRIDGE=br0
export LIBVIRT_REMOTE_SERVICE="$PWD/$labs/within.sh rpc /lab/service"
run() { cargo test --locked --workspace --test real -- --ignored "$@"; }
run --skip faults
run --test-threads 1 faults
