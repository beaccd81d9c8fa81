#!/usr/bin/env bash
# Runs a command in a cluster's namespaces, as on the node itself.
#
#   enter.sh [--name NAME] [--dir FOLDER] COMMAND...
#   enter.sh ctr --namespace k8s.io images list
set -euo pipefail

# shellcheck source=lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

parse_options "$@"
[[ ${#REST[@]} -gt 0 ]] || die "usage: enter.sh [--name NAME] [--dir FOLDER] COMMAND..."
require_up
exec nsenter --target "$(init_pid)" --mount --net --pid --cgroup --ipc --uts --wdns="$PWD" -- "${REST[@]}"
