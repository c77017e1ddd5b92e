#!/usr/bin/env bash
# run.sh [FILTER] : as root, the tests beside this on a libvirt host of the lab behind a real sshd, which ends afterwards;
# without a filter also the life of a machine by both providers, as somebody calls them by hand, and what they say of
# an image's server that breaks its word.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
labs=tests/labs/libvirt

$labs/install.sh
$labs/root.sh
$labs/tiny.sh
trap '$labs/down.sh cap' EXIT
FAKE_KVM=1 $labs/up.sh cap 91
lab=${LAB_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/egress-proxies-operator/lab}
export HYPERVISOR_RUN=$lab/run/libvirt-cap HYPERVISOR_ADDRESS=10.99.91.2
export HYPERVISOR_GUEST=$lab/libvirt/tiny.qcow2
export HYPERVISOR_WITHIN="$PWD/$labs/within.sh cap"
# Refused logins are tried on purpose, and this sshd would keep the good ones out for a while.
echo 'PerSourcePenalties no' >>"$HYPERVISOR_RUN/lab/sshd_config"
$HYPERVISOR_WITHIN /lab/service sshd stop
$HYPERVISOR_WITHIN /lab/service sshd start
# One after the other: some of them stop sshd.
cargo test --locked --workspace --test hypervisor -- --ignored --test-threads 1 "$@"
[ $# = 0 ] || exit 0
make providers
cargo test --locked --workspace --test epo -- --ignored --nocapture --test-threads 1 machines image_servers
