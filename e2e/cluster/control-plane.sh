#!/usr/bin/env bash
# Disturbs a cluster's control plane, for tests of what depends on it.
#
#   control-plane.sh [--name NAME] [--dir FOLDER] COMMAND
#
#   kill              the API server and the controllers end: connections are refused
#   hang              the API server accepts connections and answers nobody; the controllers end
#   start [FLAG...]   what kill has ended starts again, the API server with these flags too
#   continue          what hang has stopped goes on
#   compact           etcd forgets the past, and prints the first revision that it knows
#
# Controllers with an election end by themselves when the API server is away, and know nothing of before when they
# lead again. Those of this cluster have no election, so they are ended with the API server and started after it: a
# node controller that went on would take the nodes for dead, because it saw no heartbeat.
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/network.sh
source "$CLUSTER_SCRIPTS/lib/network.sh"

controllers=(kube-controller-manager kube-scheduler)

# Has the first process do something, and waits until it is done. A signal may be lost that comes while it serves the
# request before.
request() {
  local deadline=$((SECONDS + 20))
  put request "$*"
  while [[ -e $DIR/state/request || -e $DIR/state/serving ]]; do
    [[ ! -e $DIR/state/request ]] || kill -USR1 "$(init_pid)"
    ((SECONDS < deadline)) || die "\"$*\" is not done within 20 s; see $DIR/log/init.log"
    sleep 0.05
  done
}

# The brackets keep the pattern from matching itself.
signal_api_server() {
  "$CLUSTER_SCRIPTS/enter.sh" --name "$NAME" --dir "$DIR" pkill "-$1" --full '[k]ube-apiserver --etcd-servers' ||
    die "no API server runs"
}

await_api_server() {
  local deadline=$((SECONDS + 90))
  until curl --silent --fail --insecure --max-time 2 "https://$(node_ip):6443/readyz" >/dev/null; do
    ((SECONDS < deadline)) || die "the API server is not ready within 90 s; see $DIR/log/kube-apiserver.log"
    sleep 0.1
  done
}

etcd() {
  "$CLUSTER_SCRIPTS/enter.sh" --name "$NAME" --dir "$DIR" \
    curl --silent --show-error --max-time 10 --data "$2" "http://127.0.0.1:2379/v3/$1"
}

compact() {
  local answer revision
  answer=$(etcd kv/range '{"key": "AA==", "keys_only": true}')
  revision=$(sed -n 's/.*"revision": *"\([0-9]*\)".*/\1/p' <<<"$answer")
  [[ -n $revision ]] || die "etcd says no revision: $answer"
  # Nothing was written since the last time where etcd refuses.
  answer=$(etcd kv/compaction "{\"revision\": \"$revision\"}")
  [[ $answer != *error* || $answer == *"has been compacted"* ]] || die "etcd compacts nothing: $answer"
  printf '%s\n' "$revision"
}

parse_options "$@"
require_up
set -- "${REST[@]}"
case ${1:-} in
  kill)
    request kill kube-apiserver "${controllers[@]}"
    ;;
  hang)
    request kill "${controllers[@]}"
    signal_api_server STOP
    ;;
  start)
    request start-apiserver "${@:2}"
    await_api_server
    request start-controllers
    ;;
  continue)
    signal_api_server CONT
    await_api_server
    request start-controllers
    ;;
  compact)
    compact
    ;;
  *)
    die "usage: control-plane.sh [--name NAME] [--dir FOLDER] kill|hang|start [FLAG...]|continue|compact"
    ;;
esac
