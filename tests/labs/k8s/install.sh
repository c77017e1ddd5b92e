#!/usr/bin/env bash
# install.sh : the Debian packages that the lab needs, as far as they are missing.
set -euo pipefail
cd "$(dirname "$0")" && . ./lib.sh

missing=()
need() { # need PACKAGE COMMAND-OR-FILE
  case $2 in
    /*) [ -e "$2" ] || missing+=("$1") ;;
    *) command -v "$2" >/dev/null || missing+=("$1") ;;
  esac
}
PATH=$PATH:/usr/sbin:/sbin
need containerd containerd
need runc runc
need containernetworking-plugins /usr/lib/cni/bridge
need iptables iptables
need iproute2 ip
need mmdebstrap mmdebstrap
need openssl openssl
need ca-certificates /etc/ssl/certs/ca-certificates.crt

if [ ${#missing[@]} = 0 ]; then
  say "all Debian packages are there"
  exit 0
fi
need_root
command -v apt-get >/dev/null || die "missing: ${missing[*]}; this is no Debian system, so install them by its own means"
say "installing ${missing[*]}"
# A package must not start its service here: the lab starts its own.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  printf '#!/bin/sh\nexit 101\n' >$policy
  chmod +x $policy
  trap 'rm -f $policy' EXIT
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
say "installed"
