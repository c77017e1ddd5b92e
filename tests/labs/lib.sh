# What the labs share; sourced by the lib.sh of each, which sets RUN. Processes are known by pid files that also
# hold their start time, so that a number that was given anew to another process is never taken for ours.

LAB=${LAB_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/egress-proxies-operator/lab}

say() { printf 'lab: %s\n' "$*"; }
die() { printf 'lab: %s\n' "$*" >&2; exit 1; }

need_root() { [ "$(id -u)" = 0 ] || die "this needs root: run it as root (sudo -E $0)"; }

# called KIND NAME : checks the name, and puts it before what is said from here on.
called() {
  NAME=$2
  [[ $NAME =~ ^[a-z0-9]{1,8}$ ]] || die "a $1's name has 1 to 8 small letters and digits, not '$NAME'"
  say() { printf 'lab %s: %s\n' "$NAME" "$*"; }
  die() { printf 'lab %s: %s\n' "$NAME" "$*" >&2; exit 1; }
}

# birth PID : when the process began, in ticks; nothing for one that is gone, or that only waits for its
# parent to notice. While one of its threads ends it still has its ports.
birth() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '$1 != "Z" || $18 > 1 { print $20 }'; }

# start NAME COMMAND... : in the background, with a pid file and a log. Nice, because tests run beside it.
start() {
  local name=$1 pid
  shift
  mkdir -p "$RUN/pids" "$RUN/log"
  setsid nice "$@" </dev/null >"$RUN/log/$name" 2>&1 &
  pid=$!
  echo "$pid $(birth "$pid")" >"$RUN/pids/$name"
}

# running NAME : whether what was started so is still there; sets pid.
running() {
  local born
  pid=
  [ -f "$RUN/pids/$1" ] || return 1
  read -r pid born <"$RUN/pids/$1" || return 1
  [ -n "$born" ] && [ "$(birth "$pid")" = "$born" ]
}

# stop NAME : ends it at once, and waits until it is gone. Nothing of a lab is worth an orderly end, which
# takes an API server a minute.
stop() {
  local waits=100
  if running "$1"; then kill -9 "$pid" 2>/dev/null || true; fi
  while running "$1" && [ $((waits--)) -gt 0 ]; do sleep 0.05; done
  rm -f "$RUN/pids/$1"
}

# await SECONDS WHAT PROCESS COMMAND... : until the command succeeds; fails at once if the process ends.
await() {
  local most=$1 end=$((SECONDS + $1)) what=$2 process=$3
  shift 3
  until "$@" >/dev/null 2>&1; do
    running "$process" || die "$process ended while $what was awaited; the end of $RUN/log/$process:
$(tail -n 15 "$RUN/log/$process")"
    [ $SECONDS -lt $end ] || die "$what did not come within $most s; see $RUN/log/$process"
    sleep 0.1
  done
}

# mirror : the address that this machine's own apt uses.
mirror() {
  local address
  address=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
  [ -n "$address" ] || die "apt-get knows no mirror; add one to /etc/apt/sources.list and run apt-get update"
  echo "$address"
}

# debian SUITE FOLDER PACKAGES [OPTION]... : unpacks a Debian of these packages, without what only people read.
debian() {
  local suite=$1 folder=$2 packages=$3 mirror
  shift 3
  mirror=$(mirror) || exit 1
  nice mmdebstrap --variant=minbase --mode=root --quiet \
    --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' --dpkgopt=force-unsafe-io \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --include="$packages" "$@" "$suite" "$folder" \
    "deb $mirror $suite main" || die "mmdebstrap failed; its reason stands above"
}

# install_missing : the Debian packages in the array missing, without starting their services.
install_missing() {
  if [ ${#missing[@]} = 0 ]; then
    say "all Debian packages are there"
    return
  fi
  need_root
  command -v apt-get >/dev/null || die "missing: ${missing[*]}; this is no Debian system, so install them by its own means"
  say "installing ${missing[*]}"
  # A package must not start its service here: the lab starts its own.
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  say "installed"
}

# need PACKAGE COMMAND-OR-FILE : puts the package into missing if the other is not there.
missing=()
need() {
  case $2 in
    /*) [ -e "$2" ] || missing+=("$1") ;;
    *) command -v "$2" >/dev/null || missing+=("$1") ;;
  esac
}
