# shellcheck shell=bash
# Removes everything that up.sh made for one cluster, and nothing else. Safe to
# run again, and on what a crash or a reboot left.

take_down() {
  is_ours || return 0
  stop_init
  end_stragglers
  remove_network
  remove_cgroups
  rm -rf --one-file-system "$DIR"
}

# Everything else in the cluster descends from this one process, or lives in
# namespaces that end with it.
stop_init() {
  local pid
  pid=$(init_pid) || return 0
  kill -TERM "$pid"
  wait_for_end "$pid" 150 || kill -KILL "$pid"
  wait_for_end "$pid" 100 || die "process $pid of cluster \"$NAME\" does not end"
}

# Normally none. Only what we started, and its children, can be in our cgroups.
end_stragglers() {
  local pid
  for pid in $(cgroup_processes); do
    kill -KILL "$pid" 2>/dev/null || true
  done
}

# wait_for_end PID TENTHS_OF_A_SECOND
wait_for_end() {
  local i
  for ((i = 0; i < $2; i++)); do
    init_pid >/dev/null || return 0
    sleep 0.1
  done
  return 1
}
