#!/usr/bin/env bash
# Starts a one-node Kubernetes cluster in namespaces of its own.
#
#   up.sh [--name NAME] [--dir FOLDER]
#
# Everything it makes lies in FOLDER (default $SLIPWAY_CACHE/clusters/NAME), one
# veth pair and one cgroup per hierarchy; images are kept in $SLIPWAY_CACHE.
# Prints the path of the kubeconfig. A cluster that is up stays as it is.
# down.sh removes it.
#
#   SLIPWAY_CLUSTER_BINARY=FILE, SLIPWAY_COREDNS_BINARY=FILE, SLIPWAY_KUBECTL_BINARY=FILE, SLIPWAY_PAUSE_ARCHIVE=FILE
#                                 parts that were made elsewhere, instead of building or fetching them
#   SLIPWAY_RUNTIME_BINARY=FILE   what containerd starts containers with (default: runc)
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
for part in cgroups network pki config takedown; do
  # shellcheck source=/dev/null
  source "$CLUSTER_SCRIPTS/lib/$part.sh"
done

STARTED=$(date +%s%N)
FINISHED=
LOCK_FD=

elapsed() {
  local tenths=$((($(date +%s%N) - STARTED) / 100000000))
  printf '%d.%d' $((tenths / 10)) $((tenths % 10))
}

check_machine() {
  [[ $EUID -eq 0 ]] || die "needs root: it makes namespaces, cgroups and a network interface"
  local command folder
  for command in containerd ctr runc iptables ip conntrack openssl curl nsenter unshare findmnt /usr/lib/cni/bridge; do
    command -v "$command" >/dev/null || die "$command is missing; run $CLUSTER_SCRIPTS/prerequisites.sh"
  done
  # Inside, these are memory or ours, and the host's are out of sight.
  for folder in "$DIR" "$IMAGE_STORE" "$SLIPWAY_CACHE" "$CLUSTER_SCRIPTS"; do
    [[ ! $folder/ =~ ^/(run|var/lib|var/log|proc|sys|dev)/ ]] ||
      die "$folder may not lie below /run, /var/lib or /var/log; choose another with --dir or SLIPWAY_CACHE"
  done
}

# What the environment names is taken as it is: a machine with all four needs no compiler and no network.
find_binaries() {
  CLUSTER_BINARY=${SLIPWAY_CLUSTER_BINARY:-} COREDNS_BINARY=${SLIPWAY_COREDNS_BINARY:-}
  KUBECTL_BINARY=${SLIPWAY_KUBECTL_BINARY:-} PAUSE_ARCHIVE=${SLIPWAY_PAUSE_ARCHIVE:-}
  [[ -n $CLUSTER_BINARY && -n $COREDNS_BINARY && -n $PAUSE_ARCHIVE ]] || "$CLUSTER_SCRIPTS/build.sh" >/dev/null
  [[ -n $CLUSTER_BINARY ]] || CLUSTER_BINARY=$(realpath "$SLIPWAY_CACHE/bin/slipway-cluster")
  [[ -n $COREDNS_BINARY ]] || COREDNS_BINARY=$(realpath "$SLIPWAY_CACHE/bin/coredns")
  [[ -n $KUBECTL_BINARY ]] || KUBECTL_BINARY=$(realpath "$("$CLUSTER_SCRIPTS/../tools/build.sh" kubectl)")
  [[ -n $PAUSE_ARCHIVE ]] || PAUSE_ARCHIVE=$("$CLUSTER_SCRIPTS/pause/image.sh")
}

make_folder() {
  if [[ -d $DIR ]] && ! is_ours && [[ -n $(ls -A "$DIR") ]]; then
    die "$DIR is not empty and not a cluster's folder; choose another with --dir"
  fi
  if is_ours; then
    local owner
    owner=$(cat "$DIR/.slipway-cluster")
    [[ $owner == "$NAME" ]] || die "$DIR belongs to the cluster \"$owner\""
    say "removing what an earlier \"$NAME\" left"
    take_down
  fi
  mkdir -p "$DIR"
  printf '%s\n' "$NAME" >"$DIR/.slipway-cluster"
  mkdir -p "$DIR"/{state,log,volumes}
}

# One containerd at a time may use the store. The lock ends with its holder.
lock_image_store() {
  mkdir -p "$IMAGE_STORE"
  exec {LOCK_FD}>>"$IMAGE_STORE/lock"
  if ! flock --nonblock "$LOCK_FD"; then
    say "the image store $IMAGE_STORE is in use by $(cat "$IMAGE_STORE/holder" 2>/dev/null || printf 'another cluster')"
    say "take that cluster down first, or set SLIPWAY_IMAGE_STORE to another folder (its images are imported anew)"
    return 1
  fi
  printf 'the cluster "%s" in %s\n' "$NAME" "$DIR" >"$IMAGE_STORE/holder"
}

start_namespaces() {
  (
    enter_cgroups
    exec setsid env --ignore-environment \
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
      SLIPWAY_CACHE="$SLIPWAY_CACHE" SLIPWAY_IMAGE_STORE="$IMAGE_STORE" LOCK_FD="$LOCK_FD" \
      unshare --cgroup \
      bash "$CLUSTER_SCRIPTS/inside/namespaces.sh" "$NAME" "$DIR" "$CLUSTER_BINARY" "$COREDNS_BINARY" "$KUBECTL_BINARY" \
      "$PAUSE_ARCHIVE"
  ) >>"$DIR/log/init.log" 2>&1 </dev/null &
  disown
  local _
  for _ in {1..100}; do
    [[ ! -s $DIR/state/init.pid ]] || break
    sleep 0.05
  done
  connect_network "$(init_pid)"
}

# Shows the steps inside as they come.
wait_until_ready() {
  local last='' current deadline=$((SECONDS + 240))
  until [[ -e $DIR/state/ready ]]; do
    current=$(get step)
    if [[ $current != "$last" ]]; then
      say "$(printf '%6s s  %s' "$(elapsed)" "$current")"
      last=$current
    fi
    [[ ! -e $DIR/state/failed ]] || return 1
    init_pid >/dev/null || return 1
    ((SECONDS < deadline)) || return 1
    sleep 0.1
  done
}

# Output of a step goes to the folder's log, and to the screen if it fails.
host_step() {
  step "$1" "$DIR/log/up.log"
  say "$(printf '%6s s  %s' "$(elapsed)" "$1")"
  shift
  "$@" 2>>"$DIR/log/up.log"
}

# The folder goes, the logs stay where they can be read.
on_exit() {
  local code=$? kept=$SLIPWAY_CACHE/failed/$NAME log
  [[ -z $FINISHED ]] || return 0
  trap - EXIT
  set +e
  if is_ours && [[ -d $DIR/state ]]; then
    log=$(get step.log)
    say "FAILED at step \"$(get step)\" after $(elapsed) s"
    rm -rf "$kept" && mkdir -p "$kept" && cp -r "$DIR/log/." "$kept/"
    say "last lines of $kept/${log##*/}:"
    tail -n 15 "$kept/${log##*/}" | cut -c1-400 >&2
    [[ ${log##*/} != init.log && -s $kept/init.log ]] && tail -n 5 "$kept/init.log" | cut -c1-400 >&2
    take_down
    say "everything that was started is removed; all logs are in $kept"
  fi
  exit "$((code == 0 ? 1 : code))"
}

main() {
  parse_options "$@"
  check_machine
  if is_up; then
    say "cluster \"$NAME\" is already up"
    printf '%s\n' "$DIR/kubeconfig"
    return
  fi
  find_binaries
  make_folder
  trap on_exit EXIT
  trap 'exit 130' INT TERM
  host_step "image store" lock_image_store
  host_step "host network" reserve_slot
  host_step "certificates" make_certificates
  make_kubeconfigs
  render_all
  host_step "host cgroups" make_cgroups
  host_step "namespaces" start_namespaces
  wait_until_ready
  FINISHED=yes
  say "cluster \"$NAME\" is up after $(elapsed) s"
  printf '%s\n' "$DIR/kubeconfig"
}

main "$@"
