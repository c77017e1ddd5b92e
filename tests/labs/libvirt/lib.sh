# Shared by the scripts beside it, which source it. A host called NAME keeps its state in $RUN.

. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
ROOT=$LAB/libvirt/root
GUEST=$LAB/libvirt/guest.qcow2
TINY=$LAB/libvirt/tiny.qcow2
PATH=$PATH:/usr/sbin:/sbin
# For kernels of guests: an emulated timer that comes late on a busy machine is no reason to panic.
EMULATED=no_timer_check

# host NAME : sets the paths of one host.
host() {
  called host "$1"
  RUN=$LAB/run/libvirt-$NAME
  NETNS=egress-hv-$NAME
  DEVICE=ehv-$NAME
}

# first : the host's first process, as this machine sees it.
first() { running host && pgrep -o -P "$pid"; }

# within COMMAND... : runs it in the host, as root.
within() {
  local first
  first=$(first) || die "the host is not up; run up.sh $NAME NUMBER first"
  nsenter --target "$first" --mount --pid --net --uts --root env --chdir=/ PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
}

# made FILE SCRIPT : whether it was made by the script as it is now; sets of, which is kept beside what is made.
made() {
  of=$(cat "$2" lib.sh | sha256sum)
  [ -f "$1" ] && [ "$(cat "$1.of" 2>/dev/null)" = "$of" ]
}

# disk FILE WORK PARTITION:TYPE... : a disk in qcow2 of files that are partitions; a BIOS boots the first, with
# syslinux. Needs no loop device.
disk() {
  local file=$1 work=$2 table=$2/table raw=$2/disk.raw start=1 partition size
  shift 2
  echo 'label: gpt' >"$table"
  truncate -s 1M "$raw"
  for partition in "$@"; do
    size=$(($(stat -c %s "${partition%:*}") >> 20))
    printf 'start=%sMiB, size=%sMiB, type=%s%s\n' $start $size "${partition#*:}" \
      "$([ $start = 1 ] && echo ', attrs=LegacyBIOSBootable')" >>"$table"
    dd if="${partition%:*}" of="$raw" bs=1M seek=$start conv=notrunc,sparse status=none
    start=$((start + size))
  done
  # The second copy of the table is at the end.
  truncate -s $((start + 1))M "$raw"
  sfdisk --quiet "$raw" <"$table" >/dev/null
  dd if=/usr/lib/syslinux/mbr/gptmbr.bin of="$raw" bs=440 count=1 conv=notrunc status=none
  # Aside, then renamed: half an image is never taken for one.
  nice qemu-img convert -O qcow2 "$raw" "$work/disk.qcow2"
  mv "$work/disk.qcow2" "$file"
}

# boot_partition FILE MB VOLUME KERNEL INITRD OPTIONS : a FAT partition from which syslinux boots.
boot_partition() {
  local file=$1
  truncate -s "$2M" "$file"
  # Where it will begin on the disk: syslinux can't find itself otherwise.
  mkfs.vfat -F 32 -h 2048 -n "$3" "$file" >/dev/null
  mmd -i "$file" ::/syslinux
  mcopy -i "$file" "$4" ::/vmlinuz
  mcopy -i "$file" "$5" ::/initrd.img
  printf 'DEFAULT lab\nPROMPT 0\nLABEL lab\nLINUX /vmlinuz\nINITRD /initrd.img\nAPPEND %s\n' "$6" >"$file.cfg"
  mcopy -i "$file" "$file.cfg" ::/syslinux/syslinux.cfg
  mcopy -i "$file" /usr/lib/syslinux/modules/bios/ldlinux.c32 ::/syslinux/ldlinux.c32
  syslinux --install --directory syslinux "$file"
}

# work_folder SIZE : a folder in memory, gone when the script ends; sets work.
work_folder() {
  mkdir -p "$LAB/libvirt"
  work=$(mktemp -d "$LAB/libvirt/build-XXXXXX")
  trap 'cd /; ! mountpoint -q "$work" || umount "$work"; rm -rf "$work"' EXIT
  mount -t tmpfs -o "size=$1,mode=755" egress-lab "$work"
}
