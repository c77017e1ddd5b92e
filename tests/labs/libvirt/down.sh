#!/usr/bin/env bash
# down.sh NAME : ends a host with all its guests, and leaves nothing but its logs in $LAB_DIR/run/libvirt-NAME/log.
# Can be run at any time, also over what an earlier run left half done.
set -euo pipefail
cd "$(dirname "$0")" && . ./lib.sh
[ $# = 1 ] || die "usage: down.sh NAME"
host "$1"
if [ ! -d "$RUN/mnt" ]; then
  say "is not up"
  exit 0
fi
need_root
stop host
waits=100
while [ -n "$(ip netns pids "$NETNS" 2>/dev/null)" ] && [ $((waits--)) -gt 0 ]; do sleep 0.05; done
ip link delete "$DEVICE" 2>/dev/null || true
ip netns delete "$NETNS" 2>/dev/null || true
rm -rf "$RUN"/{pool,mnt,lab,pids} "$RUN"/{number,id,id.pub,known_hosts,libvirt-sock}
say "down"
