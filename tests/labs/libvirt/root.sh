#!/usr/bin/env bash
# root.sh : the file system that all hosts stand on: a Debian 13 with libvirt, QEMU, firmware, sshd and dnsmasq.
# About a minute, once.
set -euo pipefail
cd "$(dirname "$0")" && . ./lib.sh

packages=libvirt-daemon,libvirt-daemon-driver-qemu,libvirt-daemon-driver-storage,libvirt-daemon-driver-network
packages+=,libvirt-clients,qemu-system-x86,qemu-utils,ovmf,openssh-server,dnsmasq-base,iproute2,procps
if [ "$(cat "$ROOT.of" 2>/dev/null)" = "trixie $packages" ] && [ -d "$ROOT" ]; then
  say "the hosts' root is there: $ROOT"
  exit 0
fi
need_root
! ls "$LAB"/run/libvirt-*/pids/host >/dev/null 2>&1 || die "hosts stand on $ROOT; end them with down.sh first"
rm -rf "$ROOT" "$ROOT.of"
mkdir -p "$ROOT"
# In memory: what is slow about unpacking is waiting for the disk.
work_folder 4g
say "unpacking Debian 13 with libvirt"
debian trixie "$work/root" "$packages"
rm -rf "$work/root"/var/cache/apt/*.bin "$work/root"/var/lib/apt/lists/*
cp -a "$work/root/." "$ROOT"
echo "trixie $packages" >"$ROOT.of"
say "made $ROOT ($(du -sm "$ROOT" | cut -f1) MB)"
