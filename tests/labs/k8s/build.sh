#!/usr/bin/env bash
# build.sh : the Kubernetes control plane, the kubelet, kubectl and etcd, built from their Go modules.
# Kept under $LAB_DIR/k8s/bin; built again only when the versions change. About 7 minutes on 2 cores.
set -euo pipefail
cd "$(dirname "$0")" && . ./lib.sh

wanted="$KUBE_VERSION $ETCD_VERSION"
commands=(kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl)
there=yes
for command in "${commands[@]}" etcd; do [ -x "$BIN/$command" ] || there=no; done
if [ $there = yes ] && [ "$(cat "$LAB/k8s/version" 2>/dev/null)" = "$wanted" ]; then
  say "Kubernetes $KUBE_VERSION and etcd $ETCD_VERSION are there: $BIN"
  exit 0
fi

PATH=$PATH:/usr/local/go/bin
command -v go >/dev/null || die "no go on the PATH; install Go 1.26 or later (https://go.dev/dl), then run this again"
export GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0
mkdir -p "$BIN"
rm -f "$LAB/k8s/version"
work=$(mktemp -d "$LAB/k8s/build-XXXXXX")
trap 'rm -rf "$work"' EXIT

mkdir "$work/kube" "$work/etcd"
cd "$work/kube"
say "fetching the modules of Kubernetes $KUBE_VERSION"
# Kubernetes' module points its siblings at folders that a published module does not carry: each gets the
# version that was published for it (1.36.3 -> 0.36.3).
printf 'module lab\n\ngo 1.26.0\n' >go.mod
carried=$(go mod download -json "k8s.io/kubernetes@v$KUBE_VERSION" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
[ -d "$carried" ] || die "the module k8s.io/kubernetes@v$KUBE_VERSION could not be fetched; is a Go module proxy in reach (go env GOPROXY)?"
{
  printf 'module lab\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$KUBE_VERSION"
  sed -n 's#^\t\(k8s.io/[a-z0-9-]*\) => ./staging.*#\1#p' "$carried/go.mod" | while read -r module; do
    printf '\t%s => %s v0.%s\n' "$module" "$module" "${KUBE_VERSION#1.}"
  done
  printf ')\n'
} >go.mod
{
  printf '//go:build tools\n\npackage lab\n\nimport (\n'
  printf '\t_ "k8s.io/kubernetes/cmd/%s"\n' "${commands[@]}"
  printf ')\n'
} >tools.go
go mod tidy 2>"$work/log" || die "go mod tidy failed:
$(tail -n 15 "$work/log")"

minor=${KUBE_VERSION#1.}
stamp=k8s.io/component-base/version
flags="-s -w -X $stamp.gitVersion=v$KUBE_VERSION -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%%.*}"
for command in "${commands[@]}"; do
  from=$SECONDS
  say "building $command"
  nice go build -trimpath -ldflags "$flags" -o "$BIN/" "k8s.io/kubernetes/cmd/$command"
  say "built $command in $((SECONDS - from)) s"
done

cd "$work/etcd"
from=$SECONDS
printf 'module lab\n\ngo 1.26.0\n' >go.mod
printf '//go:build tools\n\npackage lab\n\nimport _ "go.etcd.io/etcd/server/v3"\n' >tools.go
{ go get "go.etcd.io/etcd/server/v3@v$ETCD_VERSION" && go mod tidy; } 2>"$work/log" || die "etcd's modules could not be fetched:
$(tail -n 15 "$work/log")"
nice go build -trimpath -ldflags '-s -w' -o "$BIN/etcd" go.etcd.io/etcd/server/v3
say "built etcd in $((SECONDS - from)) s"
echo "$wanted" >"$LAB/k8s/version"
