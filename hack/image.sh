#!/usr/bin/env bash
# image.sh [FILE] : the operator as a container image, in an OCI archive, which is target/image.tar where no FILE is
# named: `ctr images import`, `podman load` and `skopeo copy oci-archive:` take it. No Docker and no base image: epo, the
# libraries that it is linked with here, the authorities that this machine trusts, and nothing to run beside them.
# EPO names the binary where it is not the release build of this tree.
set -euo pipefail
cd "$(dirname "$0")/.."
file=${1:-target/image.tar}
die() { printf 'image: %s\n' "$*" >&2; exit 1; }
authorities=/etc/ssl/certs/ca-certificates.crt
[ -f "$authorities" ] || die "no $authorities; install ca-certificates"
if [ -z "${EPO:-}" ]; then
  cargo build --release --locked --package epo
  EPO=${CARGO_TARGET_DIR:-target}/release/epo
fi
[ -x "$EPO" ] || die "no $EPO; build it, or name another one with EPO"
version=$("$EPO" --version | cut -d' ' -f2)
name=docker.io/library/egress-proxies-operator:$version
case $(uname -m) in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) die "no name for the architecture $(uname -m)" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{etc/ssl/certs,tmp,usr/bin} "$work/image/blobs/sha256"
install -m 755 "$EPO" "$root/usr/bin/epo"
# The loader's own line names no arrow.
ldd "$EPO" | grep -o '/[^ ]*' | while read -r library; do
  install -D -m 755 "$library" "$root$library"
done
install -m 644 "$authorities" "$root/etc/ssl/certs/"
echo 'epo:x:65532:65532::/:/nonexistent' >"$root/etc/passwd"
echo 'epo:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
chmod 1777 "$root/tmp"

# blob FILE : puts it under its digest, and prints digest and size as JSON.
blob() {
  local digest size
  digest=$(sha256sum "$1" | cut -d' ' -f1) size=$(stat -c %s "$1")
  mv "$1" "$work/image/blobs/sha256/$digest"
  printf '"digest":"sha256:%s","size":%s' "$digest" "$size"
}
# The same tree gives the same bytes.
layer() { tar -C "$root" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - .; }
unpacked=$(layer | sha256sum | cut -d' ' -f1)
layer | gzip -n >"$work/layer"
layer=$(blob "$work/layer")
printf '{"architecture":"%s","os":"linux","config":{"User":"65532:65532","Entrypoint":["/usr/bin/epo"],"WorkingDir":"/","Labels":{"org.opencontainers.image.title":"egress-proxies-operator","org.opencontainers.image.version":"%s"}},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
  "$architecture" "$version" "$unpacked" >"$work/config"
config=$(blob "$work/config")
oci=application/vnd.oci.image
printf '{"schemaVersion":2,"mediaType":"%s.manifest.v1+json","config":{"mediaType":"%s.config.v1+json",%s},"layers":[{"mediaType":"%s.layer.v1.tar+gzip",%s}]}' \
  $oci $oci "$config" $oci "$layer" >"$work/manifest"
manifest=$(blob "$work/manifest")
printf '{"schemaVersion":2,"manifests":[{"mediaType":"%s.manifest.v1+json",%s,"annotations":{"io.containerd.image.name":"%s","org.opencontainers.image.ref.name":"%s"}}]}' \
  $oci "$manifest" "$name" "$version" >"$work/image/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$work/image/oci-layout"
mkdir -p "$(dirname "$file")"
# Aside, then renamed: half an image is never taken for one.
tar -C "$work/image" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$file.new" .
mv "$file.new" "$file"
printf '%s: %s for %s (%s MB)\n' "$file" "$name" "$architecture" "$(du -m "$file" | cut -f1)"
