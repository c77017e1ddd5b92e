#!/usr/bin/env bash
# node.sh NAME : joins a real node to the cluster of up.sh NAME: containerd, a kubelet, a CNI bridge. Pods
# run as real containers, with addresses that this machine reaches and that reach this machine at the
# bridge's own. A node that runs already is left as it is.
set -euo pipefail
cd "$(dirname "$0")" && . ./lib.sh
[ $# = 1 ] || die "usage: node.sh NAME, after up.sh NAME PORT"
need_root
PATH=$PATH:/usr/sbin:/sbin
cluster "$1"
running apiserver || die "the cluster is not up; run up.sh $NAME PORT first"
node=node-$NAME
is_ready() { kubectl get node "$node" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' | grep -qx True; }
if running containerd && running kubelet && is_ready 2>/dev/null; then
  say "the node runs already"
  exit 0
fi
for command in containerd runc ctr ip iptables; do
  command -v "$command" >/dev/null || die "no $command; run install.sh first"
done
[ -x /usr/lib/cni/bridge ] || die "no CNI plugins in /usr/lib/cni; run install.sh first"
[ -f "$IMAGES/pause.tar" ] && [ -f "$IMAGES/squid.tar" ] || die "no images in $IMAGES; run image.sh first"
./down.sh "$NAME" node

from=$SECONDS
own=$RUN/node
mkdir -p "$own/cni" "$SOCKETS/root"
# Each cluster has addresses of its own, so that two nodes don't meet.
net=$(($(cat "$RUN/port") / 100 % 250))

cat >"$own/containerd.toml" <<T
version = 2
root = "$own/containerd"
state = "$SOCKETS/containerd"
[grpc]
  address = "$CONTAINERD"
[plugins."io.containerd.internal.v1.opt"]
  path = "$own/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/lab/pause:1"
  # So that ending the node finds them.
  netns_mounts_under_state_dir = true
  # Without CAP_SYS_RESOURCE a sandbox's score of -998 can't be set, and runc gives up.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$own/cni"
T
cat >"$own/cni/lab.conflist" <<T
{"cniVersion": "1.0.0", "name": "$BRIDGE", "plugins": [
  {"type": "bridge", "bridge": "$BRIDGE", "isGateway": true, "ipMasq": false, "hairpinMode": true, "ipam": {
    "type": "host-local", "dataDir": "$own/addresses", "ranges": [[{"subnet": "10.244.$net.0/24"}]],
    "routes": [{"dst": "0.0.0.0/0"}]}}]}
T
cat >"$own/kubelet.yaml" <<T
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://$CONTAINERD
cgroupDriver: cgroupfs
cgroupRoot: /egress-lab-$NAME
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
address: 10.98.$net.1
readOnlyPort: 0
healthzPort: 0
resolvConf: ""
maxPods: 240
nodeStatusUpdateFrequency: 5s
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}
T

# The address at which the API server reaches the kubelet for logs and exec.
ip link add "$BRIDGE-n" type veth peer name "$BRIDGE-p"
ip address add "10.98.$net.1/32" dev "$BRIDGE-n"
ip link set "$BRIDGE-n" up
ip link set "$BRIDGE-p" up

# The kubelet's own root of cgroups: it would take another kubelet's for garbage.
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
  mkdir -p "/sys/fs/cgroup/egress-lab-$NAME"
  for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
    echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || true
    echo "+$controller" >"/sys/fs/cgroup/egress-lab-$NAME/cgroup.subtree_control" 2>/dev/null || true
  done
else
  for controller in /sys/fs/cgroup/*/; do mkdir -p "$controller/egress-lab-$NAME"; done
  # An empty set of CPUs can hold no process.
  for file in cpuset.cpus cpuset.mems; do
    if [ -f "/sys/fs/cgroup/cpuset/$file" ]; then
      cat "/sys/fs/cgroup/cpuset/$file" >"/sys/fs/cgroup/cpuset/egress-lab-$NAME/$file"
    fi
  done
fi

say "starting containerd and loading the images"
# In mounts of their own, so that these end with them; and on a root that is a mount, as runc and the kubelet need
# it: in a plain chroot it is none, and its mounts can't be made private from inside.
propagation=private
if ! mountpoint -q /; then
  propagation=unchanged
  ! grep -q ' / / .* shared:' /proc/1/mountinfo \
    || die "this is a plain chroot, and the host shares its mounts: make the root a mount before you enter it (mount --bind DIR DIR)"
fi
start containerd unshare --mount --propagation $propagation \
  bash -c 'mount --rbind / "$1" && exec chroot "$1" containerd -c "$2"' containerd "$SOCKETS/root" "$own/containerd.toml"
await 60 "containerd's answer" containerd ctr -a "$CONTAINERD" version
for image in pause squid; do
  ctr -a "$CONTAINERD" -n k8s.io images import "$IMAGES/$image.tar" >/dev/null
done
say "starting the kubelet"
running containerd || die "containerd ended; see $RUN/log/containerd"
start kubelet nsenter --target "$pid" --mount --root --wd=/ "$BIN/kubelet" --config "$own/kubelet.yaml" \
  --kubeconfig "$RUN/node.conf" --hostname-override "$node" --node-ip "10.98.$net.1" --root-dir "$own/kubelet" --cert-dir "$own/kubelet/pki"
await 120 "the node's readiness" kubelet is_ready
say "the node is ready after $((SECONDS - from)) s; its Pods reach this machine at 10.244.$net.1"
