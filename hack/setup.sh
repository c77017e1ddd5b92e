#!/usr/bin/env bash
# Installs what building and testing need, and says what it does. Can be run again at any time.
set -euo pipefail

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# What the C parts of dependencies (zstd, ring) are built with.
missing=()
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v make >/dev/null || missing+=(make)
# Whom cargo and go trust.
[ -d /etc/ssl/certs ] && [ -n "$(ls /etc/ssl/certs)" ] || missing+=(ca-certificates)
# What providers in JavaScript and Python are built with, for make projects and make e2e.
projects=()
command -v node >/dev/null && command -v npm >/dev/null || projects+=(nodejs npm)
python3 -c 'import ensurepip, venv' 2>/dev/null || projects+=(python3 python3-venv)
if [ ${#projects[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    missing+=("${projects[@]}")
  else
    say "make projects and make e2e will need: ${projects[*]}; nothing else does"
  fi
fi
# promtool tries the alert rules, and the tests on a cluster let Prometheus itself scrape.
server=
command -v promtool >/dev/null || { missing+=(prometheus); server=prometheus; }
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    die "missing: ${missing[*]}; install them with this system's package manager, then run make setup again"
  fi
  say "installing ${missing[*]}"
  apt-get update -qq
  # RUNLEVEL=1: what is installed for its tools alone is not started, nor at the next boot.
  RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  [ -z "$server" ] || ! command -v systemctl >/dev/null || systemctl disable --quiet "$server" || true
fi

command -v cargo >/dev/null || die "no cargo on the PATH; install Rust with rustup (https://rustup.rs), then run make setup again"
if command -v rustup >/dev/null; then
  # rust-toolchain.toml names the toolchain, its components and the guests' target.
  say "checking the Rust toolchain of rust-toolchain.toml"
  rustup toolchain install --no-self-update >/dev/null
else
  say "no rustup: this toolchain must bring clippy, rustfmt and the target wasm32-unknown-unknown itself"
fi
say "done; go on with: make run (as root), or make test"
