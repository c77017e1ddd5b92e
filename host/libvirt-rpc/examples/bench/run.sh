#!/usr/bin/env bash
# run.sh [SUMMARY.json] : as root, measures this client beside libvirt's own over one SSH tunnel to a libvirt host of the
# lab, which ends afterwards. Nothing else should run on the machine.
set -euo pipefail
summary=$(realpath -m "${1:-target/bench/libvirt-remote.json}")
cd "$(dirname "$0")/../../../.."
labs=tests/labs/libvirt

$labs/install.sh
$labs/root.sh
/usr/bin/python3 -c 'import libvirt' 2>/dev/null \
  || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-libvirt >/dev/null
cargo build --locked --release --package libvirt-remote --example bench
lab=${LAB_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/egress-proxies-operator/lab}
host=$lab/run/libvirt-rpc
tunnel=
trap '[ -z "$tunnel" ] || kill "$tunnel"; $labs/down.sh rpc' EXIT
$labs/up.sh rpc 90
ssh -N -i "$host/id" -o UserKnownHostsFile="$host/known_hosts" -o IdentitiesOnly=yes -o BatchMode=yes \
  -L "$host/tunnel:/var/run/libvirt/libvirt-sock" root@10.99.90.2 &
tunnel=$!
for _ in $(seq 100); do
  [ ! -S "$host/tunnel" ] || break
  sleep 0.1
done
mkdir -p "$(dirname "$summary")"
"${CARGO_TARGET_DIR:-target}/release/examples/bench" "$host/tunnel" default "$summary"
