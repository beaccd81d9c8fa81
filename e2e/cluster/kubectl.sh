#!/usr/bin/env bash
# kubectl of the cluster's minor version, with its kubeconfig.
#
#   kubectl.sh [--name NAME] [--dir FOLDER] -- ARGUMENTS...
#   kubectl.sh get pods
set -euo pipefail

# shellcheck source=lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

parse_options "$@"
require_up
exec "$SLIPWAY_CACHE/bin/kubectl" --kubeconfig "$DIR/kubeconfig" "${REST[@]}"
