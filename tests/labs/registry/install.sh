#!/usr/bin/env bash
# install.sh : a real registry, Debian's docker-registry, and a tool of others for registries, oras, built from its Go
# module. Both are kept under $LAB_DIR/registry: nothing is installed, and no root is needed. About two minutes, once.
set -euo pipefail
cd "$(dirname "$0")" && . ../lib.sh

ORAS_VERSION=1.3.6
there=$LAB/registry
if [ -x "$there/docker-registry" ] && [ -x "$there/oras" ] && [ "$(cat "$there/version" 2>/dev/null)" = "$ORAS_VERSION" ]; then
  say "docker-registry and oras $ORAS_VERSION are there: $there"
  exit 0
fi
mkdir -p "$there"
rm -f "$there/version"
work=$(mktemp -d "$there/work-XXXXXX")
trap 'rm -rf "$work"' EXIT

say "fetching docker-registry"
(cd "$work" && apt-get download -qq docker-registry 2>/dev/null) ||
  die "apt-get can't fetch docker-registry; run apt-get update, and see whether Debian's main is among its sources"
dpkg-deb -x "$work"/docker-registry_*.deb "$work/root"
mv "$work/root/usr/bin/docker-registry" "$there/docker-registry"

PATH=$PATH:/usr/local/go/bin
command -v go >/dev/null || die "no go on the PATH; install Go 1.26 or later (https://go.dev/dl), then run this again"
say "building oras $ORAS_VERSION"
GOBIN=$there GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0 nice go install "oras.land/oras/cmd/oras@v$ORAS_VERSION" 2>"$work/log" ||
  die "oras did not build:
$(tail -n 15 "$work/log")"
echo "$ORAS_VERSION" >"$there/version"
say "made $there"
