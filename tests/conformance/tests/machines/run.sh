#!/usr/bin/env bash
# run.sh [FILTER...] : as root, the tests beside this on two libvirt hosts of the lab, which end afterwards. With EPO_SOAK=1
# their long forms; EPO_SEED decides what is drawn.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
labs=$PWD/tests/labs/libvirt

"$labs/install.sh"
"$labs/root.sh"
"$labs/tiny.sh"
ends() { for name in mach1 mach2; do "$labs/down.sh" $name; done; }
trap ends EXIT
lab=${LAB_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/egress-proxies-operator/lab}
for number in 1 2; do
  # A pool that can be filled up.
  FAKE_KVM=1 POOL_SIZE=1300m "$labs/up.sh" mach$number 9$((number + 1))
  # Refused logins are tried on purpose, and this sshd would keep the good ones out for a while.
  echo 'PerSourcePenalties no' >>"$lab/run/libvirt-mach$number/lab/sshd_config"
  "$labs/within.sh" mach$number bash -c '/lab/service sshd stop; /lab/service sshd start'
done
export MACHINES_HOSTS='mach1=10.99.92.2 mach2=10.99.93.2' MACHINES_RUN=$lab/run
export MACHINES_WITHIN=$labs/within.sh MACHINES_GUEST=$lab/libvirt/tiny.qcow2
# One after the other: some of them stop sshd.
cargo test --locked --workspace --test machines -- --ignored --nocapture --test-threads 1 "$@"
