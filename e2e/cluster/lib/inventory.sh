# shellcheck shell=bash
# Lists of everything on the machine that a cluster could leave behind.

# inventory FOLDER: writes one sorted list per kind.
inventory() {
  mkdir -p "$1"
  list_processes >"$1/processes"
  findmnt -rn -o TARGET,FSTYPE | sort >"$1/mounts"
  ip -o link | awk -F': ' '{print $2}' | sort >"$1/interfaces"
  ip -4 route | sort >"$1/routes"
  list_chains >"$1/chains"
  find /sys/fs/cgroup -type d -name '*slipway*' | sort >"$1/cgroups"
  find /sys/fs/cgroup -maxdepth 2 -type d | grep -v /process_api | sort >>"$1/cgroups"
  list_namespaces >"$1/namespaces"
  list_settings >"$1/settings"
  list_files >"$1/files"
}

# Others may work on this machine: only what a cluster consists of counts.
list_processes() {
  # shellcheck disable=SC2009 # pgrep shows either names or arguments
  ps -eo comm=,args= | grep -E '^(containerd|containerd-shim|runc|coredns|slipway-|pause|etcd)|inside/init\.sh' |
    grep -v -E 'grep|test-clean' | sort || true
}

list_chains() {
  local tool
  for tool in iptables-save ip6tables-save; do
    "$tool" 2>/dev/null | grep -E '^(\*|:|-A)' | sed 's/ \[.*//' || true
  done
}

# Networks and mount tables that someone keeps alive by a file or a process.
list_namespaces() {
  lsns -n -o TYPE,COMMAND | grep -E 'slipway|containerd|pause' | sort || true
  ls /run/netns 2>/dev/null || true
}

list_settings() {
  sysctl -a 2>/dev/null |
    grep -E '^(vm\.(overcommit_memory|panic_on_oom)|kernel\.(panic|panic_on_oops|keys\.root_max.*)|net\.ipv4\.ip_forward|net\.netfilter\.nf_conntrack_(max|tcp_timeout.*)|net\.bridge\..*|fs\.inotify\..*) ='
}

list_files() {
  local folder
  for folder in /run /var/run /var/lib /var/log /etc/cni /etc/containerd /opt /usr/libexec /etc/kubernetes \
    "$SLIPWAY_CACHE/clusters"; do
    [[ ! -d $folder ]] || find "$folder" -xdev \( -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/log/apt \) -prune -o -print
  done | sort -u
}
