#!/usr/bin/env bash
# within.sh NAME COMMAND... : runs a command in a host, as root: within.sh hv1 /lab/service sshd stop
set -euo pipefail
cd "$(dirname "$0")" && . ./lib.sh
[ $# -ge 2 ] || die "usage: within.sh NAME COMMAND..."
host "$1"
shift
need_root
within "$@"
