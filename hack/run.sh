#!/usr/bin/env bash
# run.sh      : everything, on this one machine: a cluster with a real node, the operator beside it, a Proxy,
#               and a web request through it. Leaves it running; what runs already is kept or replaced.
# run.sh stop : ends the operator; the cluster, its Pods and their proxies go on.
# run.sh down : ends all of it.
set -euo pipefail
cd "$(dirname "$0")/.."
labs=$PWD/tests/labs/k8s
. "$labs/lib.sh"
cluster demo
port=${EPO_DEMO_PORT:-19443}
step() { printf '\n==> %s\n' "$*"; }
die() { printf '\nrun: %s\n' "$*" >&2; exit 1; }
# end NAME SECONDS : asks it to end and waits; it is killed after that time.
end() {
  local until=$((SECONDS + $2))
  if running "$1"; then
    say "ending $1"
    kill "$pid"
    while running "$1" && [ $SECONDS -lt $until ]; do sleep 0.1; done
  fi
  stop "$1"
}

case ${1:-} in
  '') ;;
  stop | down)
    end epo 40
    if [ "$1" = down ]; then
      end hello 1
      "$labs/down.sh" "$NAME"
    fi
    exit 0
    ;;
  *) die "usage: run.sh [stop|down]" ;;
esac

need_root
mkdir -p target/run
epo=${CARGO_TARGET_DIR:-target}/debug/epo
component=target/providers/kubernetes.wasm

step "Debian packages, Kubernetes from its Go modules, container images (8 minutes the first time)"
make --no-print-directory lab
command -v curl >/dev/null || {
  say "installing curl"
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends curl >/dev/null
}

step "the operator and its provider (5 minutes the first time)"
make --no-print-directory build providers

step "a cluster with a real node"
"$labs/up.sh" "$NAME" "$port"
"$labs/node.sh" "$NAME"
here=10.244.$((port / 100 % 250)).1

step "its kinds, rights and the namespace team-a"
kubectl apply --server-side -k deploy/cluster >/dev/null
kubectl apply --server-side -k deploy/rights/kubernetes >/dev/null
kubectl apply --server-side -f deploy/samples/team.yaml >/dev/null
kubectl get crds -o name

step "the provider, a WebAssembly component, into a ConfigMap"
"$epo" provider inspect "$component" | sed '/^Config/,$d'
"$epo" provider configmap "$component" --name kubernetes-provider --namespace egress-system \
  | kubectl apply --server-side --force-conflicts -f -
kubectl apply --server-side --force-conflicts -f deploy/samples/providers.yaml

step "the operator, with the rights of its ServiceAccount and no more"
(
  umask 077
  token=$(kubectl create token egress-operator --namespace egress-system --duration 24h)
  kubectl config view --raw --minify >"$RUN/operator.conf"
  kubectl --kubeconfig "$RUN/operator.conf" config set-credentials operator --token "$token" >/dev/null
  kubectl --kubeconfig "$RUN/operator.conf" config set-context lab --user operator >/dev/null
)
end epo 40
start epo "$epo" run --kubeconfig "$RUN/operator.conf" --cache-dir "$LAB/compiled" \
  --metrics-address 127.0.0.1:$((port + 5)) --log-format text
await 60 "the operator's readiness" epo curl --silent --fail "http://127.0.0.1:$((port + 5))/readyz"
await 60 "the provider's readiness" epo kubectl wait --for=condition=Ready providerhealth/kubernetes --timeout=1s
kubectl get providerhealths

step "a Proxy"
kubectl apply --server-side -f deploy/samples/proxy.yaml
kubectl wait --namespace team-a --for=condition=Ready proxy/web --timeout=120s \
  || die "the Proxy did not become ready:
$(kubectl get proxy web --namespace team-a -o 'jsonpath={.status.message}'); see $RUN/log/epo"
kubectl get proxies,pods --namespace team-a -o wide
address=$(kubectl get proxy web --namespace team-a -o 'jsonpath={.status.address}')

step "a web server on this machine, and a request to it through the Proxy"
if ! running hello; then
  PATH=$PATH:/usr/local/go/bin
  CGO_ENABLED=0 GOWORK=off go build -o "$RUN/hello" hack/hello.go
  start hello "$RUN/hello" "$here:$((port + 6))"
  await 10 "the web server's answer" hello curl --silent --fail "http://$here:$((port + 6))/"
fi
request="curl --silent --show-error --proxy http://$address:3128 http://$here:$((port + 6))/"
printf '$ %s\n' "$request"
$request

# Another build of the same provider: a custom section more, so another digest.
cp "$component" target/run/another-build.wasm
printf '\0\6\5build' >>target/run/another-build.wasm
digest() { printf 'sha256:%s' "$(sha256sum "$1" | cut -d' ' -f1)"; }
# A component that was cut off on its way.
head --bytes=100000 "$component" >target/run/broken.wasm
cat >target/run/env <<E
export KUBECONFIG=$ADMIN
export PATH=$BIN:$(cd "$(dirname "$epo")" && pwd):\$PATH
E

cat <<E

All of it keeps running: the operator's log is $RUN/log/epo, 'make stop' ends the operator, 'make down' everything.
Three things to try; first:

  source target/run/env

1. Swap the provider while it runs: the same source, built otherwise. The revision changes, the Proxy does not.

  epo provider configmap target/run/another-build.wasm --name kubernetes-provider -n egress-system | kubectl apply --server-side --force-conflicts -f -
  kubectl wait providerhealth/kubernetes --for=jsonpath='{.status.active.digest}'=$(digest target/run/another-build.wasm)
  epo provider history kubernetes
  $request

2. Break it: what is put there is cut off in the middle. It is refused, the revision before goes on, and new Proxies are made.

  kubectl create configmap kubernetes-provider -n egress-system --from-file provider.wasm=target/run/broken.wasm --dry-run=client -o yaml | kubectl apply --server-side --force-conflicts -f -
  kubectl wait providerhealth/kubernetes --for=jsonpath='{.status.refusal.stage}'=parse
  kubectl get providerhealth kubernetes -o 'jsonpath={.status.refusal.message}{"\n"}'
  kubectl create -f - <<< '{"apiVersion":"egressproxies.dev/v1alpha1","kind":"Proxy","metadata":{"name":"second","namespace":"team-a"},"spec":{"provider":"kubernetes"}}'
  kubectl wait -n team-a --for=condition=Ready proxy/second && kubectl get proxies -n team-a

3. Roll it back to the revision before, and hold it there until the ConfigMap changes again.

  epo provider rollback kubernetes
  kubectl wait providerhealth/kubernetes --for=jsonpath='{.status.active.digest}'=$(digest "$component")
  epo provider history kubernetes

E
