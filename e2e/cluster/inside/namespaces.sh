#!/usr/bin/env bash
# Runs in the cgroup namespace, whose root is the cluster's cgroup; makes the
# other namespaces and their first process.
#
#   namespaces.sh NAME ARGUMENTS_OF_INIT...
set -euo pipefail

# shellcheck source=../lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/common.sh"
# shellcheck source=../lib/cgroups.sh
source "$CLUSTER_SCRIPTS/lib/cgroups.sh"

NAME=$1
leave_cgroup_root
exec unshare --mount --net --pid --ipc --uts --fork --propagation private \
  bash "$CLUSTER_SCRIPTS/inside/init.sh" "$@"
