#!/usr/bin/env bash
# The first process of the cluster's namespaces: makes them a machine, starts
# the components and ends everything when it is told to.
#
#   init.sh NAME DIR CLUSTER_BINARY COREDNS_BINARY KUBECTL_BINARY PAUSE_ARCHIVE
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/cgroups.sh
source "$CLUSTER_SCRIPTS/lib/cgroups.sh"
# shellcheck source=../lib/network.sh
source "$CLUSTER_SCRIPTS/lib/network.sh"
# shellcheck source=../lib/config.sh
source "$CLUSTER_SCRIPTS/lib/config.sh"
# shellcheck source=components.sh
source "$CLUSTER_SCRIPTS/inside/components.sh"

NAME=$1 DIR=$2
# shellcheck disable=SC2034 # read by components.sh
CLUSTER_BINARY=$3 COREDNS_BINARY=$4 KUBECTL_BINARY=$5 PAUSE_ARCHIVE=$6
declare -A COMPONENTS=()

# /proc is still the host's, and so is the pid that it shows.
publish_pid() {
  local pid _
  read -r pid _ </proc/self/stat
  put init.namespace "$(pid_namespace_of self)"
  put init.pid "$pid"
}

# Whatever is written to the usual places must end up in our folder or in
# memory; the host's folders stay as they are.
mount_folders() {
  mount -t proc proc /proc
  mount -t tmpfs -o mode=755 slipway /run
  mount -t tmpfs -o mode=755 slipway /var/lib
  mkdir -p /run/slipway /run/lock /run/containerd "$DIR/log/node"
  mount --bind "$DIR/log/node" /var/log
}

# The kubelet insists on some settings that the whole machine would share. It
# reads the values that it wants here, and the machine keeps its own.
shield_kernel_settings() {
  local setting
  for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    mkdir -p "/run/slipway/sysctl/$(dirname "${setting%=*}")"
    printf '%s\n' "${setting#*=}" >"/run/slipway/sysctl/${setting%=*}"
    mount --bind "/run/slipway/sysctl/${setting%=*}" "/proc/sys/${setting%=*}"
  done
}

set_up_machine() {
  step "mounts" "$DIR/log/init.log"
  mount_folders
  shield_kernel_settings
  step "cgroups" "$DIR/log/init.log"
  mount_cgroups
  # Pods may ask for mounts that propagate; they propagate inside only.
  mount --make-rshared /
  hostname "$NODE_NAME"
  ulimit -n "$(ulimit -Hn)"
  step "network" "$DIR/log/init.log"
  set_up_inner_network
}

# Ends the containers first and has containerd forget them, so that the image
# store, which outlives the cluster, holds images only.
stop() {
  trap '' TERM
  local process pid
  for process in /proc/[0-9]*; do
    pid=${process#/proc/}
    [[ $pid == 1 || ${COMPONENTS[$pid]:-} == containerd ]] || kill -KILL "$pid" 2>/dev/null || true
  done
  forget_containers || true
  exit 0
}

# What control-plane.sh asks for: to kill components, or to start them again. It waits until both files are gone.
serve_request() {
  local request
  # A signal that came while the last request was served asks for nothing new.
  mv "$DIR/state/request" "$DIR/state/serving" 2>/dev/null || return 0
  read -ra request <"$DIR/state/serving" || return 0
  case ${request[0]} in
    kill) kill_components "${request[@]:1}" ;;
    start-apiserver) start_apiserver "${request[@]:1}" ;;
    start-controllers) start_controllers ;;
  esac
  rm -f "$DIR/state/serving"
}

on_exit() { [[ -e $DIR/state/ready ]] || : >"$DIR/state/failed"; }

# A component that ends is a defect to look at, not one to hide by a restart.
watch_components() {
  local ended code
  while :; do
    code=0
    wait -n -p ended || code=$?
    # Nothing ended where a signal came, and what was killed on purpose is no component any more.
    [[ -n ${ended:-} && -n ${COMPONENTS[$ended]:-} ]] || continue
    printf '%s ended with code %s; see %s\n' "${COMPONENTS[$ended]}" "$code" "$DIR/log/${COMPONENTS[$ended]}.log" |
      tee -a "$DIR/state/ended"
  done
}

trap stop TERM
trap serve_request USR1
trap on_exit EXIT
publish_pid
set_up_machine
start_all
: >"$DIR/state/ready"
watch_components
