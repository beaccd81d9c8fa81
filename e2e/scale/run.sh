#!/usr/bin/env bash
# Measures the operator with many agents (measure.py), in a network of its own: every address of 10.128.0.0/16 is this
# machine there, so that each pod has one. Needs root, and Python with PyYAML.
#
#   run.sh --operator FILE [--cluster FILE] [--folder FOLDER] [options of measure.py]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${SLIPWAY_CACHE:-$HOME/.cache/slipway}

# shellcheck disable=SC2016 # expanded by the shell inside
exec unshare --net bash -c '
  ip link set lo up
  ip address add 10.96.255.1/32 dev lo
  ip route add local 10.128.0.0/16 dev lo
  exec python3 "$0"/measure.py "$@"' "$here" --cluster "$cache/bin/slipway-cluster" --folder "$cache/scale" "$@"
