#!/usr/bin/env bash
# image.sh : the container images that the node has, as files under $LAB_DIR/images, made of Debian packages
# and of Go alone: lab/pause:1, and lab/squid:1, a Debian 12 with squid and curl. No registry, no Docker.
set -euo pipefail
cd "$(dirname "$0")" && . ./lib.sh

if [ -f "$IMAGES/pause.tar" ] && [ -f "$IMAGES/squid.tar" ]; then
  say "the images are there: $IMAGES"
  exit 0
fi
need_root
PATH=$PATH:/usr/local/go/bin:/usr/sbin:/sbin
command -v go >/dev/null || die "no go on the PATH; install Go 1.26 or later (https://go.dev/dl), then run this again"
mkdir -p "$IMAGES"
work=$(mktemp -d "$IMAGES/build-XXXXXX")
clean() {
  mountpoint -q "$work/squid" && umount "$work/squid"
  rm -rf "$work"
}
trap clean EXIT

# image FILE NAME ENTRYPOINT : of the tar $work/layer.tar, in the form that docker save writes.
image() {
  local layer config image=$work/image
  rm -rf "$image" && mkdir "$image"
  mv "$work/layer.tar" "$image/layer.tar"
  layer=$(sha256sum "$image/layer.tar" | cut -d' ' -f1)
  printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":%s,"Env":["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$(go env GOARCH)" "$3" "$layer" >"$image/config"
  config=$(sha256sum "$image/config" | cut -d' ' -f1)
  mv "$image/config" "$image/$config.json"
  printf '[{"Config":"%s.json","RepoTags":["docker.io/%s"],"Layers":["layer.tar"]}]' "$config" "$2" >"$image/manifest.json"
  # Aside, then renamed: half an image is never taken for one.
  tar -C "$image" -cf "$work/$1" .
  mv "$work/$1" "$IMAGES/$1"
  say "made $2 ($(du -m "$IMAGES/$1" | cut -f1) MB)"
}

mkdir "$work/pause"
cat >"$work/pause/main.go" <<'GO'
// Holds a Pod's namespaces: sleeps until it is told to end.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGINT, syscall.SIGTERM)
	<-ends
}
GO
CGO_ENABLED=0 GOWORK=off go build -trimpath -ldflags '-s -w' -o "$work/pause/pause" "$work/pause/main.go"
tar -C "$work/pause" -cf "$work/layer.tar" pause
image pause.tar lab/pause:1 '["/pause"]'

say "unpacking Debian 12 with squid (under a minute)"
mkdir "$work/squid"
mount -t tmpfs -o size=2g egress-lab-image "$work/squid"
debian bookworm "$work/squid/root" squid,curl --variant=essential
tar -C "$work/squid/root" --exclude='./dev/*' --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' \
  -cf "$work/layer.tar" .
image squid.tar lab/squid:1 '["/usr/sbin/squid","-N","-d1"]'
