#!/usr/bin/env bash
# up.sh NAME NUMBER : a libvirt host of its own on this machine, reached over SSH at 10.99.NUMBER.2. Several may
# run at once. Guests on its bridge br0 get addresses in 10.77.NUMBER.0/24 by DHCP, which this machine and the
# Pods of the lab's clusters reach. One that runs already is left as it is; the rest of a broken one is removed
# first. With FAKE_KVM=1 domains of type kvm boot although /dev/kvm can't be used; with POOL_SIZE=200m the pool
# is a disk of that size.
set -euo pipefail
cd "$(dirname "$0")" && . ./lib.sh
[ $# = 2 ] || die "usage: up.sh NAME NUMBER, such as up.sh hv1 1"
host "$1"
number=$2
[[ $number =~ ^[1-9][0-9]?$ ]] || die "a host's number is 1 to 99, not '$number'"
need_root
address=10.99.$number.2
# In a shell of its own, since there may be no host yet, which ends the shell.
answers() (within virsh --quiet --connect qemu:///system pool-info default >/dev/null 2>&1)
if running host && [ "$(cat "$RUN/number" 2>/dev/null)" = "$number" ] && answers; then
  say "runs already"
  exit 0
fi
for command in ip ssh-keygen pgrep; do
  command -v $command >/dev/null || die "no $command; run install.sh first"
done
[ -f "$ROOT.of" ] || die "no root for hosts at $ROOT; run root.sh first"
[ ! -d "$RUN/mnt" ] || ./down.sh "$NAME"
! ip -4 address show | grep -q "inet 10\.99\.$number\.1/" || die "number $number is in use; give another NUMBER"

from=$SECONDS
rm -rf "$RUN"
mkdir -p "$RUN"/{pool,log,mnt,lab}
chmod 700 "$RUN"
echo "$number" >"$RUN/number"
ssh-keygen -q -t ed25519 -N '' -C lab -f "$RUN/id"
ssh-keygen -q -t ed25519 -N '' -C '' -f "$RUN/lab/host_key"
cp "$RUN/id.pub" "$RUN/lab/authorized_keys"
printf '%s %s\n' "$address" "$(cut -d' ' -f1,2 "$RUN/lab/host_key.pub")" >"$RUN/known_hosts"
sed -e "s/@NAME@/$NAME/g; s/@NUMBER@/$number/g" host/start >"$RUN/lab/start"
cp host/service host/sshd_config "$RUN/lab"
sed -e "s/@ADDRESS@/$address/" -i "$RUN/lab/sshd_config"
if [ "${FAKE_KVM:-}" = 1 ]; then cp host/qemu-without-kvm "$RUN/lab"; fi
chmod 755 "$RUN/lab" "$RUN/lab"/{start,service}

ip netns add "$NETNS"
ip link add "$DEVICE" type veth peer name eth0 netns "$NETNS"
ip address add "10.99.$number.1/30" dev "$DEVICE"
ip link set "$DEVICE" up
ip route replace "10.77.$number.0/24" via "$address" dev "$DEVICE"
[ "$(cat /proc/sys/net/ipv4/ip_forward)" = 1 ] || echo 1 >/proc/sys/net/ipv4/ip_forward

# Everything of a host ends with its first process: mounts, guests, daemons.
start host ip netns exec "$NETNS" unshare --mount --pid --uts --fork --kill-child --propagation private \
  bash host/mount "$RUN" "$ROOT" "${POOL_SIZE:-}"
await 60 "the host's libvirt" host answers
ln -sfn "/proc/$(first)/root/run/libvirt/libvirt-sock" "$RUN/libvirt-sock"
say "up after $((SECONDS - from)) s: ssh -i $RUN/id -o UserKnownHostsFile=$RUN/known_hosts root@$address"
say "its libvirt on this machine: $RUN/libvirt-sock"
