#!/usr/bin/env bash
# install.sh : the Debian packages that the lab needs, as far as they are missing.
set -euo pipefail
cd "$(dirname "$0")" && . ./lib.sh

PATH=$PATH:/usr/sbin:/sbin
need containerd containerd
need runc runc
need containernetworking-plugins /usr/lib/cni/bridge
need iptables iptables
need iproute2 ip
need mmdebstrap mmdebstrap
need openssl openssl
need ca-certificates /etc/ssl/certs/ca-certificates.crt

install_missing
