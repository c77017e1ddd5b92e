# Shared by the scripts beside it, which source it. A cluster called NAME keeps its state in $RUN and its
# sockets in $SOCKETS.

. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
BIN=$LAB/k8s/bin
IMAGES=$LAB/images
KUBE_VERSION=1.36.3
ETCD_VERSION=3.6.13

# cluster NAME : sets the paths of one cluster.
cluster() {
  called cluster "$1"
  RUN=$LAB/run/k8s-$NAME
  SOCKETS=/run/egress-lab-$NAME
  ADMIN=$RUN/admin.conf
  CONTAINERD=$SOCKETS/containerd.sock
  BRIDGE=egress-$NAME
}

kubectl() { "$BIN/kubectl" --kubeconfig "$ADMIN" "$@"; }
