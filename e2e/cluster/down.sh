#!/usr/bin/env bash
# Removes a cluster: processes, mounts, interface, cgroups and folder. Images
# stay in $SLIPWAY_CACHE.
#
#   down.sh [--name NAME] [--dir FOLDER]
set -euo pipefail

# shellcheck source=lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
for part in cgroups network takedown; do
  # shellcheck source=/dev/null
  source "$CLUSTER_SCRIPTS/lib/$part.sh"
done

parse_options "$@"
[[ $EUID -eq 0 ]] || die "needs root"
if ! is_ours; then
  say "no cluster \"$NAME\" in $DIR"
  exit 0
fi
owner=$(cat "$DIR/.slipway-cluster")
[[ $owner == "$NAME" ]] || die "$DIR belongs to the cluster \"$owner\"; say --name $owner"
take_down
say "cluster \"$NAME\" is removed"
