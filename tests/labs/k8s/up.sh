#!/usr/bin/env bash
# up.sh NAME PORT [OF] : a control plane on 127.0.0.1, ports PORT to PORT+4; several may run at once, in steps of
# 100. Prints where its kubeconfig is. One that runs already is left as it is; the rest of a broken one is
# removed first. With OF it begins with a copy of that one's state and signs with its key, and OF goes on.
set -euo pipefail
cd "$(dirname "$0")" && . ./lib.sh
[ $# = 2 ] || [ $# = 3 ] || die "usage: up.sh NAME PORT [OF], such as up.sh c1 16443"
cluster "$1"
port=$2
[[ $port =~ ^[0-9]{4,5}$ ]] && [ "$port" -lt 65530 ] || die "'$port' is no port"

components=(etcd apiserver controller-manager scheduler)
whole() {
  for component in "${components[@]}"; do running "$component" || return 1; done
  [ "$(cat "$RUN/port" 2>/dev/null)" = "$port" ] && kubectl get --raw /readyz >/dev/null 2>&1
}
if whole; then
  say "runs already: KUBECONFIG=$ADMIN"
  exit 0
fi
[ -x "$BIN/kube-apiserver" ] || die "no Kubernetes at $BIN; run build.sh first"
[ ! -d "$RUN/pids" ] || ./down.sh "$NAME"
for offset in 0 1 2 3 4; do
  ! (exec 3<>"/dev/tcp/127.0.0.1/$((port + offset))") 2>/dev/null \
    || die "port $((port + offset)) is in use by another process; give another PORT"
done

from=$SECONDS
rm -rf "$RUN"
mkdir -p "$RUN"
chmod 700 "$RUN"
echo "$port" >"$RUN/port"
copied=()
if [ $# = 3 ]; then
  to=$RUN
  # As a snapshot of a running machine's disk is: whole up to one moment.
  (
    cluster "$3"
    running etcd || die "no etcd runs, so there is nothing to copy"
    trap 'kill -CONT "$pid"' EXIT
    kill -STOP "$pid"
    cp -a "$RUN/etcd" "$RUN/sa.key" "$to"
  )
  copied=(--force-new-cluster)
else
  openssl genrsa -out "$RUN/sa.key" 2048 2>/dev/null
fi
secret() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }
admin=$(secret)
node=$(secret)
(umask 077 && printf '%s,admin,admin,system:masters\n%s,system:node:node-%s,node,system:nodes\n' "$admin" "$node" "$NAME" >"$RUN/tokens")
kubeconfig() { # kubeconfig FILE TOKEN
  (umask 077 && cat >"$1" <<Y
apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "https://127.0.0.1:$port", certificate-authority: "$RUN/cert/apiserver.crt"}}]
users: [{name: user, user: {token: "$2"}}]
contexts: [{name: lab, context: {cluster: lab, user: user}}]
current-context: lab
Y
  )
}
kubeconfig "$ADMIN" "$admin"
kubeconfig "$RUN/node.conf" "$node"

say "starting etcd and the API server on port $port"
start etcd "$BIN/etcd" --name "$NAME" --data-dir "$RUN/etcd" --unsafe-no-fsync --log-level warn \
  --listen-client-urls "http://127.0.0.1:$((port + 1))" --advertise-client-urls "http://127.0.0.1:$((port + 1))" \
  --listen-peer-urls "http://127.0.0.1:$((port + 2))" --initial-advertise-peer-urls "http://127.0.0.1:$((port + 2))" \
  --initial-cluster "$NAME=http://127.0.0.1:$((port + 2))" "${copied[@]}"
start apiserver "$BIN/kube-apiserver" --etcd-servers "http://127.0.0.1:$((port + 1))" \
  --bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port "$port" --cert-dir "$RUN/cert" \
  --token-auth-file "$RUN/tokens" --authorization-mode Node,RBAC --allow-privileged \
  --service-cluster-ip-range 10.96.0.0/16 --kubelet-preferred-address-types InternalIP \
  --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$RUN/sa.key" \
  --service-account-signing-key-file "$RUN/sa.key"
await 120 "the API server's readiness" apiserver kubectl get --raw /readyz

say "starting the controller manager and the scheduler"
start controller-manager "$BIN/kube-controller-manager" --kubeconfig "$ADMIN" --leader-elect=false \
  --bind-address 127.0.0.1 --secure-port $((port + 3)) --cert-dir "$RUN/cert-controller-manager" \
  --service-account-private-key-file "$RUN/sa.key" --use-service-account-credentials --root-ca-file "$RUN/cert/apiserver.crt"
start scheduler "$BIN/kube-scheduler" --kubeconfig "$ADMIN" --leader-elect=false \
  --bind-address 127.0.0.1 --secure-port $((port + 4)) --cert-dir "$RUN/cert-scheduler"
await 60 "the first ServiceAccount" controller-manager kubectl get serviceaccount default
running scheduler || die "the scheduler ended:
$(tail -n 15 "$RUN/log/scheduler")"
say "up after $((SECONDS - from)) s: KUBECONFIG=$ADMIN"
