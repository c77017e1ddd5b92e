#!/usr/bin/env bash
# tiny.sh : a guest of 20 MB that boots in seconds, also emulated: Debian's kernel, busybox, DHCP, the QEMU guest agent,
# and a web server on port 3128. BIOS only, no cloud-init. It says TINY-READY on its console.
set -euo pipefail
cd "$(dirname "$0")" && . ./lib.sh

if made "$TINY" tiny.sh; then
  say "the tiny guest is there: $TINY"
  exit 0
fi
need_root
work_folder 1g
cd "$work"
kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image-/ { print $2; exit }')
[ -n "$kernel" ] || die "apt knows no linux-image-cloud-amd64; run apt-get update"
say "making the tiny guest of $kernel"
apt-get -qq -o APT::Sandbox::User=root download "$kernel" busybox-static qemu-guest-agent >/dev/null
mkdir packages guest
for package in *.deb; do dpkg-deb --extract "$package" packages; done

mkdir -p guest/{bin,dev,etc,lib,lib64,proc,run,sys,tmp,usr/sbin,var/run,www}
cp packages/*/busybox guest/bin/ 2>/dev/null || cp packages/usr/bin/busybox guest/bin/
cp packages/usr/sbin/qemu-ga guest/usr/sbin/
for library in $(ldd guest/usr/sbin/qemu-ga | grep -oE '/[^ ]+'); do
  mkdir -p "guest$(dirname "$library")"
  cp -L "$library" "guest$library"
done
modules=(virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci failover net_failover virtio_net virtio_blk virtio_console)
for module in "${modules[@]}"; do
  # Some are built into some kernels.
  find packages -name "$module.ko" -exec cp {} guest/lib/ \;
done
cat >guest/init <<'I'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/sbin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
# Again and again instead of in their order.
for round in 1 2 3; do
  for module in /lib/*.ko; do insmod $module 2>/dev/null; done
done
ip link set lo up
ip link set eth0 up
cat >/tmp/leased <<'S'
#!/bin/sh
[ "$1" = bound ] || exit 0
ip address flush dev eth0
ip address add $ip/$mask dev eth0
[ -z "$router" ] || ip route add default via $router
S
chmod +x /tmp/leased
# On a busy machine nobody may answer for a while.
until udhcpc -i eth0 -s /tmp/leased -q -t 20 -T 1 -n; do sleep 1; done
echo ok >/www/hello
httpd -p 3128 -h /www
for port in /sys/class/virtio-ports/*; do
  if [ "$(cat $port/name)" = org.qemu.guest_agent.0 ]; then
    mkdir -p /dev/virtio-ports
    ln -s /dev/${port##*/} /dev/virtio-ports/org.qemu.guest_agent.0
    qemu-ga -d
  fi
done
echo TINY-READY
while :; do sleep 3600; done
I
chmod +x guest/init
(cd guest && find . | cpio -o -H newc --quiet) | gzip -6 >initrd.img
boot_partition boot 48 TINY packages/boot/vmlinuz-"${kernel#linux-image-}" initrd.img \
  "console=ttyS0 quiet net.ifnames=0 mitigations=off $EMULATED"
disk "$TINY" "$work" boot:U
echo "$of" >"$TINY.of"
say "made $TINY ($(du -m "$TINY" | cut -f1) MB)"
