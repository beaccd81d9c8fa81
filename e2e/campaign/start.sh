#!/usr/bin/env bash
# Runs the suite `campaign` on a machine that has nothing but root and the pieces of carry.sh: makes a cluster, installs
# Slipway, and starts the suite in the background. Nothing is downloaded. A second call goes on where the first one
# stopped, and starts no second suite.
#
#   start.sh [FOLDER_WITH_PIECES]     (without a folder: its own, or $SLIPWAY_CACHE/campaign-pieces)
#
# Variables of the suite (e2e/campaign/grid.rs) say what a run does, and these:
#   SLIPWAY_CAMPAIGN_RESULTS=FOLDER   campaign.json, campaign.log, and `rc` once it has ended
#                                     (default: $SLIPWAY_CACHE/campaign-results)
#   SLIPWAY_CAMPAIGN_WAIT=SECONDS     how long to wait for the end of the suite (default: 0)
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export SLIPWAY_CACHE=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
[[ -e $here/SHA256SUMS ]] || here=$SLIPWAY_CACHE/campaign-pieces
[[ ! -d ${1:-} ]] || here=$(realpath "$1")
if [[ ! -e $here/unpack.sh ]]; then
  printf 'start.sh: no pieces in %s; e2e/campaign/carry.sh makes them\n' "$here" >&2
  exit 1
fi
# It runs the script of that name, as seen from the folder of its own.
exec bash "$here/unpack.sh" "$here" ../campaign/node
