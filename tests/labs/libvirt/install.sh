#!/usr/bin/env bash
# install.sh : the Debian packages that the lab needs on this machine, as far as they are missing. libvirt and QEMU
# are not among them: they stay in the hosts' own root.
set -euo pipefail
cd "$(dirname "$0")" && . ./lib.sh

need mmdebstrap mmdebstrap
need iproute2 ip
need openssh-client ssh-keygen
need procps pgrep
need qemu-utils qemu-img
need dosfstools mkfs.vfat
need mtools mcopy
need e2fsprogs mke2fs
need fdisk sfdisk
need cpio cpio
need syslinux syslinux
need syslinux-common /usr/lib/syslinux/mbr/gptmbr.bin
install_missing
