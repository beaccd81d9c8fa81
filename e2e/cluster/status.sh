#!/usr/bin/env bash
# Says whether a cluster is up: 0 up, 1 up with a component that ended, 3 down.
#
#   status.sh [--name NAME] [--dir FOLDER]
set -euo pipefail

# shellcheck source=lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"

parse_options "$@"
if ! is_up; then
  printf 'cluster "%s" is down\n' "$NAME"
  exit 3
fi
printf 'cluster "%s" is up\n  first process  %s\n  kubeconfig     %s\n  logs           %s\n' \
  "$NAME" "$(init_pid)" "$DIR/kubeconfig" "$DIR/log"
if [[ -s $DIR/state/ended ]]; then
  sed 's/^/  /' "$DIR/state/ended"
  exit 1
fi
