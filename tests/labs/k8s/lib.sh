# Shared by the scripts beside it, which source it. A cluster called NAME keeps its state in $RUN and its
# sockets in $SOCKETS; processes are known by pid files that also hold their start time, so that a number
# that was given anew to another process is never taken for ours.

LAB=${LAB_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/egress-proxies-operator/lab}
BIN=$LAB/k8s/bin
IMAGES=$LAB/images
KUBE_VERSION=1.36.3
ETCD_VERSION=3.6.13

say() { printf 'lab: %s\n' "$*"; }
die() { printf 'lab: %s\n' "$*" >&2; exit 1; }

need_root() { [ "$(id -u)" = 0 ] || die "this needs root: run it as root (sudo -E $0)"; }

# cluster NAME : sets the paths of one cluster.
cluster() {
  NAME=$1
  [[ $NAME =~ ^[a-z0-9]{1,8}$ ]] || die "a cluster's name has 1 to 8 small letters and digits, not '$NAME'"
  RUN=$LAB/run/k8s-$NAME
  SOCKETS=/run/egress-lab-$NAME
  ADMIN=$RUN/admin.conf
  CONTAINERD=$SOCKETS/containerd.sock
  BRIDGE=egress-$NAME
  say() { printf 'lab %s: %s\n' "$NAME" "$*"; }
  die() { printf 'lab %s: %s\n' "$NAME" "$*" >&2; exit 1; }
}

kubectl() { "$BIN/kubectl" --kubeconfig "$ADMIN" "$@"; }

# birth PID : when the process began, in ticks; nothing for one that is gone, or that only waits for its
# parent to notice.
birth() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '$1 != "Z" { print $20 }'; }

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

# stop NAME : ends it at once, and waits until it is gone. Nothing of the lab is worth an orderly end, which
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
