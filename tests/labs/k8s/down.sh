#!/usr/bin/env bash
# down.sh NAME [node] : ends everything that up.sh and node.sh started for NAME, or the node alone: processes
# by their pid files, containers with their shims, mounts, network devices, cgroups, state. Can be run at any
# time, also over what an earlier run left half done. Logs stay in $LAB_DIR/run/k8s-NAME/log.
set -euo pipefail
cd "$(dirname "$0")" && . ./lib.sh
[ $# = 1 ] || [ "${2:-}" = node ] || die "usage: down.sh NAME [node]"
PATH=$PATH:/usr/sbin:/sbin
cluster "$1"

# containerd leaves its containers behind, and the shims that stand over them. A container of this node is what
# is in the node's own cgroups, a shim of it is what was given the node's own socket.
containers() {
  local process
  for process in $(find /sys/fs/cgroup -path "*/egress-lab-$NAME*" -name cgroup.procs -exec cat {} + 2>/dev/null | sort -u); do
    # Not those that have ended and stay listed until their parent notices.
    if [ -n "$(birth "$process")" ]; then echo "$process"; fi
  done
}
shims() {
  local process
  for process in /proc/[0-9]*; do
    if tr '\0' ' ' 2>/dev/null <"$process/cmdline" | grep -q "^[^ ]*containerd-shim[^ ]* .*-address $CONTAINERD "; then
      echo "${process#/proc/}"
    fi
  done
}

node_down() {
  local processes process sandbox device tries=100
  stop kubelet
  stop containerd
  while processes=$(shims; containers) && [ -n "$processes" ] && [ $((tries--)) -gt 0 ]; do
    for process in $processes; do kill -9 "$process" 2>/dev/null || true; done
    sleep 0.1
  done
  for device in "$BRIDGE-n" "$BRIDGE"; do ip link delete "$device" 2>/dev/null || true; done
  find /sys/fs/cgroup -depth -type d -path "*/egress-lab-$NAME*" -exec rmdir {} \; 2>/dev/null || true
  for sandbox in "$SOCKETS"/containerd/io.containerd.grpc.v1.cri/sandboxes/*/; do
    rm -f /var/lib/cni/results/*-"$(basename "$sandbox")"-*
  done
  rm -rf "$RUN/node" "$SOCKETS"
}

if [ ! -d "$RUN" ] && [ ! -d "$SOCKETS" ]; then
  say "is not up"
  exit 0
fi
if [ -d "$RUN/node" ] || [ -d "$SOCKETS" ]; then
  need_root
  say "ending the node and its containers"
  node_down
fi
if [ "${2:-}" != node ]; then
  say "ending the control plane"
  for component in scheduler controller-manager apiserver etcd; do stop "$component"; done
  rm -rf "$RUN/etcd" "$RUN/pids" "$RUN/port" "$RUN"/cert* "$RUN"/*.conf "$RUN/tokens" "$RUN/sa.key"
fi
