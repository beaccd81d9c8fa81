# shellcheck shell=bash
# One cgroup of the cluster's own in every hierarchy of the host (version 1) or
# in the only one (version 2).

cgroup_hierarchies() { findmnt -rn -t cgroup,cgroup2 -o TARGET | grep '^/sys/fs/cgroup' | sort -u; }

cgroup_name() { printf 'slipway-%s\n' "$NAME"; }

make_cgroups() {
  local hierarchy group file
  for hierarchy in $(cgroup_hierarchies); do
    enable_controllers "$hierarchy"
    group=$hierarchy/$(cgroup_name)
    mkdir -p "$group"
    # A new cpuset is empty, and nothing can be moved into an empty one.
    for file in cpuset.cpus cpuset.mems; do
      [[ -e $hierarchy/cgroup.subtree_control || ! -e $hierarchy/$file ]] ||
        cat "$hierarchy/$file" >"$group/$file"
    done
  done
}

# Version 2 only: passes the controllers on to the children of a cgroup.
enable_controllers() {
  local group=$1 controller controllers
  [[ -e $group/cgroup.subtree_control ]] || return 0
  read -ra controllers <"$group/cgroup.controllers"
  for controller in "${controllers[@]}"; do
    grep -qw "$controller" "$group/cgroup.subtree_control" ||
      printf '+%s' "$controller" >"$group/cgroup.subtree_control" || say "cgroup v2: no $controller"
  done
}

# Moves the calling process; what it starts from then on follows.
enter_cgroups() {
  local hierarchy
  for hierarchy in $(cgroup_hierarchies); do
    printf '%s\n' "$BASHPID" >"$hierarchy/$(cgroup_name)/cgroup.procs"
  done
}

# Version 2 only: a cgroup that passes controllers on may hold no process, so the
# first ones go to a leaf of their own.
leave_cgroup_root() {
  local root
  root=/sys/fs/cgroup/$(cgroup_name)
  [[ -e $root/cgroup.procs ]] || return 0
  mkdir -p "$root/init"
  printf '%s\n' "$BASHPID" >"$root/init/cgroup.procs"
}

# Inside the namespaces: what was our cgroup becomes the root that everyone
# sees, so that the kubelet and runc cannot touch anything above it.
mount_cgroups() {
  local hierarchy staging=/run/slipway/cgroup hierarchies
  hierarchies=$(cgroup_hierarchies)
  for hierarchy in $hierarchies; do
    mkdir -p "$staging${hierarchy#/sys/fs/cgroup}"
  done
  if [[ $hierarchies == /sys/fs/cgroup ]]; then
    mount --bind "/sys/fs/cgroup/$(cgroup_name)" "$staging"
    umount --lazy /sys/fs/cgroup
    mount --move "$staging" /sys/fs/cgroup
    enable_controllers /sys/fs/cgroup
    return
  fi
  for hierarchy in $hierarchies; do
    mount --bind "$hierarchy/$(cgroup_name)" "$staging${hierarchy#/sys/fs/cgroup}"
  done
  link_controllers "$staging"
  umount --recursive --lazy /sys/fs/cgroup
  mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
  for hierarchy in $hierarchies; do
    mkdir "$hierarchy"
    mount --move "$staging${hierarchy#/sys/fs/cgroup}" "$hierarchy"
  done
  find "$staging" -maxdepth 1 -type l -exec mv {} /sys/fs/cgroup/ \;
}

# Version 1: distributions mount some controllers together (cpu,cpuacct) and
# link their single names to that.
link_controllers() {
  local link
  find /sys/fs/cgroup -maxdepth 1 -type l | while read -r link; do
    ln -s "$(readlink "$link")" "$1/${link##*/}"
  done
}

# Every process in them, as the caller's pids.
cgroup_processes() {
  local hierarchy
  for hierarchy in $(cgroup_hierarchies); do
    [[ ! -d $hierarchy/$(cgroup_name) ]] ||
      find "$hierarchy/$(cgroup_name)" -name cgroup.procs -exec cat {} +
  done 2>/dev/null | sort -u
}

# Empties and removes our cgroups, children first. The kernel needs a moment
# between the end of the last process and the end of its cgroup.
remove_cgroups() {
  local hierarchy group _
  for hierarchy in $(cgroup_hierarchies); do
    group=$hierarchy/$(cgroup_name)
    for _ in {1..50}; do
      [[ -d $group ]] || break
      find "$group" -depth -type d -exec rmdir {} + 2>/dev/null && break
      sleep 0.1
    done
    [[ ! -d $group ]] || say "could not remove $group; its processes: $(tr '\n' ' ' <"$group/cgroup.procs")"
  done
}
