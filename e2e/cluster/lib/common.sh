# shellcheck shell=bash disable=SC2034 # read by the files that source this one
# Names, paths, messages and the state kept in a cluster's folder.
#
# Layout of the folder:
#   .slipway-cluster   marks the folder as ours; holds the cluster's name
#   kubeconfig         for the cluster's administrator
#   log/               one file per component, audit.log, pods/
#   state/             small files by which the scripts talk to each other

CLUSTER_SCRIPTS=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SLIPWAY_CACHE=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
IMAGE_STORE=${SLIPWAY_IMAGE_STORE:-$SLIPWAY_CACHE/containerd}
NAME=${SLIPWAY_CLUSTER_NAME:-slipway}
DIR=${SLIPWAY_CLUSTER_DIR:-}
export NODE_NAME=slipway

say() { printf '%s\n' "$*" >&2; }

die() {
  say "${0##*/}: $*"
  exit 1
}

# Reads --name and --dir; what follows them is left in REST.
parse_options() {
  while [[ $# -gt 0 ]]; do
    case $1 in
      --name) NAME=${2:?--name needs a value} && shift 2 ;;
      --dir) DIR=${2:?--dir needs a value} && shift 2 ;;
      --) shift && break ;;
      --*) die "unknown option $1; known are --name NAME and --dir FOLDER" ;;
      *) break ;;
    esac
  done
  [[ $NAME =~ ^[a-z][a-z0-9-]{0,30}$ ]] ||
    die "the name \"$NAME\" must be lower-case letters, digits and dashes, at most 31"
  DIR=$(realpath -m "${DIR:-$SLIPWAY_CACHE/clusters/$NAME}")
  REST=("$@")
}

# Whole or not at all: the other side may read at any time.
put() {
  printf '%s\n' "$2" >"$DIR/state/.$1"
  mv "$DIR/state/.$1" "$DIR/state/$1"
}

get() { cat "$DIR/state/$1" 2>/dev/null || true; }

# Names what is being done, so that a failure can say where it happened.
# Usage: step "NAME" LOG_FILE
step() {
  put step.log "$2"
  put step "$1"
}

is_ours() { [[ -f $DIR/.slipway-cluster ]]; }

# Tells the cluster's pid namespace from every other one, before and after a
# reboot.
pid_namespace_of() { printf '%s %s\n' "$(readlink "/proc/$1/ns/pid")" "$(</proc/sys/kernel/random/boot_id)"; }

# The pid of the cluster's first process, if that very process still runs: the
# namespace is compared, because pids are used again.
init_pid() {
  local pid
  pid=$(get init.pid)
  [[ -n $pid && -e /proc/$pid/ns/pid && $(pid_namespace_of "$pid" 2>/dev/null) == "$(get init.namespace)" ]] || return 1
  printf '%s\n' "$pid"
}

is_up() { is_ours && [[ -e $DIR/state/ready ]] && init_pid >/dev/null; }

require_up() {
  is_up || die "no cluster \"$NAME\" is up in $DIR; start it with $CLUSTER_SCRIPTS/up.sh --name $NAME"
}
