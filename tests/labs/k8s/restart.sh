#!/usr/bin/env bash
# restart.sh NAME COMPONENT : ends one process of a control plane at once, and begins it anew as it was begun.
set -euo pipefail
cd "$(dirname "$0")" && . ./lib.sh
[ $# = 2 ] || die "usage: restart.sh NAME COMPONENT, such as restart.sh c1 apiserver"
cluster "$1"
running "$2" || die "$2 does not run"
mapfile -d '' -t command <"/proc/$pid/cmdline"
stop "$2"
start "$2" "${command[@]}"
[ "$2" != apiserver ] || await 120 "the API server's readiness" apiserver kubectl get --raw /readyz
say "$2 runs again"
