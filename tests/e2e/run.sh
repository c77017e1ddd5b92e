#!/usr/bin/env bash
# run.sh [FILTER...] : the tests on a real cluster, which is brought up if it isn't, and stays up for the next
# run; tests/labs/k8s/down.sh e2e ends it. Filters are names of tests, or parts of them. The filters hypervisors and together
# bring up a libvirt host too, which tests/labs/libvirt/down.sh e2e ends.
set -euo pipefail
cd "$(dirname "$0")/../.."
labs=tests/labs/k8s
. "$labs/lib.sh"
cluster e2e
need_root

"$labs/install.sh"
"$labs/build.sh"
"$labs/image.sh"
tests/labs/registry/install.sh
export REGISTRY_TOOLS=$LAB/registry
"$labs/up.sh" "$NAME" 16443
"$labs/node.sh" "$NAME"
# Emulated guests take what processors there are for minutes: machines are made only where they are asked for.
skip=(--skip hypervisors:: --skip together::)
if [[ " $* " == *" hypervisors"* || " $* " == *" together"* ]]; then
  skip=()
  hypervisor=tests/labs/libvirt
  "$hypervisor/install.sh"
  "$hypervisor/root.sh"
  "$hypervisor/tiny.sh"
  "$hypervisor/image.sh"
  # Emulated even where /dev/kvm would do: what CI sees is what everybody sees.
  FAKE_KVM=1 "$hypervisor/up.sh" e2e 3
  export HYPERVISOR_ADDRESS=10.99.3.2 HYPERVISOR_RUN=$LAB/run/libvirt-e2e
  export HYPERVISOR_WITHIN="$PWD/$hypervisor/within.sh e2e"
  export HYPERVISOR_GUEST=$LAB/libvirt/guest.qcow2 HYPERVISOR_TINY=$LAB/libvirt/tiny.qcow2
fi
say "building the operator and the tests"
# Of the whole workspace, like make test: with other packages chosen, dependencies get other features, and
# wasmtime is built anew. The tests of the command line bring epo itself.
cargo test --locked --workspace --lib --test e2e --test epo --test agreement --no-run
# As people deploy it, with what was built for the tests.
EPO=${CARGO_TARGET_DIR:-target}/debug/epo hack/image.sh "$RUN/epo.tar"
ctr -a "$CONTAINERD" -n k8s.io images import "$RUN/epo.tar" >/dev/null
if [ $# = 0 ]; then
  # What crates try of their own on an API server, while no operator runs there.
  KUBECONFIG=$ADMIN cargo test --locked --workspace --lib -- --ignored tests::real
  say "asking the real API server what the simulated one is asked"
  KUBECONFIG=$ADMIN cargo test --locked --workspace --test agreement -- --ignored --nocapture --test-threads 1
fi
export LAB=$ADMIN KUBECTL=$BIN/kubectl
# Three at once: most of a test is waiting.
cargo test --locked --workspace --test e2e -- --test-threads 3 "${skip[@]}" "$@"
