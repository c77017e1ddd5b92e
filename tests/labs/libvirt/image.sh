#!/usr/bin/env bash
# image.sh : a cloud guest as people use one: a Debian 12 with cloud-init, the QEMU guest agent and squid, which boots
# from BIOS, UEFI and UEFI with Secure Boot. About a minute, once. User-data writes squid's configuration and
# starts it.
set -euo pipefail
cd "$(dirname "$0")" && . ./lib.sh

if made "$GUEST" image.sh; then
  say "the guest is there: $GUEST"
  exit 0
fi
need_root
work_folder 5g
root=$work/root
say "unpacking Debian 12 with cloud-init and squid"
packages=systemd-sysv,dbus,udev,kmod,iproute2,ca-certificates,linux-image-cloud-amd64,initramfs-tools,zstd
packages+=,cloud-init,cloud-guest-utils,fdisk,qemu-guest-agent,squid,curl
mkdir "$work/initramfs" "$work/signed"
printf 'MODULES=list\nCOMPRESS=zstd\nRESUME=none\n' >"$work/initramfs/lab"
# The cloud kernel has no driver for AHCI: disks are virtio.
printf '%s\n' virtio_pci virtio_blk virtio_scsi virtio_net sd_mod ext4 crc32c_generic >"$work/initramfs/modules"
debian bookworm "$root" "$packages" \
  --essential-hook='mkdir -p "$1/etc/initramfs-tools/conf.d"' \
  --essential-hook="cp $work/initramfs/lab \"\$1/etc/initramfs-tools/conf.d/lab\"" \
  --essential-hook="cp $work/initramfs/modules \"\$1/etc/initramfs-tools/modules\"" \
  --customize-hook='chroot "$1" sh -c "cd /tmp && apt-get -qq download shim-signed grub-efi-amd64-signed"' \
  --customize-hook="mv \"\$1\"/tmp/*.deb $work/signed"

echo 'LABEL=root / ext4 defaults,noatime 0 1' >"$root/etc/fstab"
echo labguest >"$root/etc/hostname"
# Empty: each guest makes its own.
: >"$root/etc/machine-id"
rm -f "$root/etc/resolv.conf"
echo 'nameserver 10.77.255.53' >"$root/etc/resolv.conf"
# What the seed's network-config says comes first.
cat >"$root/etc/systemd/network/90-dhcp.network" <<'C'
[Match]
Type=ether
[Network]
DHCP=ipv4
IPv6AcceptRA=no
LinkLocalAddressing=no
C
cat >"$root/etc/cloud/cloud.cfg.d/90-lab.cfg" <<'C'
datasource_list: [NoCloud, None]
locale: false
ssh_genkeytypes: []
apt_preserve_sources_list: true
C
sed -i 's/^root:[^:]*:/root::/' "$root/etc/shadow"
systemctl() { chroot "$root" systemctl --quiet "$@" 2>/dev/null || true; }
systemctl enable systemd-networkd serial-getty@ttyS0 qemu-guest-agent
systemctl disable squid systemd-networkd-wait-online
systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
  systemd-networkd-wait-online.service

options="root=LABEL=root ro console=tty0 console=ttyS0 quiet net.ifnames=0 mitigations=off $EMULATED"
boot_partition "$work/boot" 96 ESP "$root"/boot/vmlinuz-* "$root"/boot/initrd.img-* "$options"
# UEFI: the signed shim starts the signed GRUB, which looks for its configuration in /EFI/debian.
for package in "$work"/signed/*.deb; do dpkg-deb --extract "$package" "$work/signed"; done
mmd -i "$work/boot" ::/EFI ::/EFI/BOOT ::/EFI/debian
mcopy -i "$work/boot" "$work/signed/usr/lib/shim/shimx64.efi.signed" ::/EFI/BOOT/BOOTX64.EFI
mcopy -i "$work/boot" "$work/signed/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed" ::/EFI/BOOT/grubx64.efi
cat >"$work/grub.cfg" <<C
set timeout=0
search --no-floppy --set=root --file /vmlinuz
menuentry lab {
  linux /vmlinuz $options
  initrd /initrd.img
}
C
mcopy -i "$work/boot" "$work/grub.cfg" ::/EFI/debian/grub.cfg
rm -rf "$root"/boot/{initrd.img,vmlinuz}-* "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/*.log
# Room for a third more; cloud-init grows it to the disk that the guest gets.
megabytes=$(($(du -sm "$root" | cut -f1) * 4 / 3 + 64))
truncate -s ${megabytes}M "$work/system"
nice mke2fs -q -t ext4 -L root -m 1 -d "$root" "$work/system"
disk "$GUEST" "$work" "$work/boot:U" "$work/system:L"
echo "$of" >"$GUEST.of"
say "made $GUEST ($(du -m "$GUEST" | cut -f1) MB)"
