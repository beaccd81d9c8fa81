#!/usr/bin/env bash
# Runs the steps of `make test`: each with a limit of its own and its duration, the log's end when one fails.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

logs=$(mktemp -d)
summary=()

# step NAME MINUTES COMMAND...
step() {
  local name=$1 minutes=$2 started=$SECONDS status
  shift 2
  printf '==> %s (at most %s min)\n' "$name" "$minutes"
  timeout --kill-after=60 "${minutes}m" "$@" > >(tee "$logs/$name.log") 2>&1
  status=$?
  summary+=("$(printf '%-14s %5d s  %s' "$name" $((SECONDS - started)) "$([[ $status == 0 ]] && echo ok || echo "failed ($status)")")")
  if [[ $status != 0 ]]; then
    [[ $status == 124 || $status == 137 ]] && echo "step $name ran past its limit of $minutes min" >&2
    printf '%s\n' "${summary[@]}"
    echo "the log of the failed step: $logs/$name.log" >&2
    exit 1
  fi
}

# Each clone has build outputs of its own in the shared cache, and nothing else removes those of clones that are gone.
make_room() {
  local folder=${CARGO_TARGET_DIR:-${SLIPWAY_CACHE:-$HOME/.cache/slipway}/target} wanted=25
  mkdir -p "$folder"
  free() { df --output=avail --block-size=1G "$folder" | tail -n 1; }
  (($(free) >= wanted)) || rm -rf "$folder"/*/debug/incremental
  (($(free) >= wanted)) || rm -rf "$folder"
  mkdir -p "$folder"
  (($(free) >= wanted)) || echo "only $(free) GB are free of the $wanted that a build with nothing cached takes" >&2
}
make_room

step prerequisites 10 e2e/cluster/prerequisites.sh
step build 35 make --no-print-directory build
step lint 20 make --no-print-directory lint
step unit 25 make --no-print-directory test-unit
step faults 15 make --no-print-directory test-faults
step alerts 10 make --no-print-directory test-alerts
step gpu-labels 1 make --no-print-directory test-gpu-labels
step argocd 5 make --no-print-directory test-argocd
step dashboards 5 make --no-print-directory test-dashboards
step charts 5 make --no-print-directory test-charts
step repository 5 make --no-print-directory test-repository
step clients 10 make --no-print-directory test-clients
step model 15 make --no-print-directory -C e2e/model test
step cluster 55 e2e/run.sh api core rollout
# After the first cluster: the kernel modules that it loads bring settings that no later one changes.
step clean 10 e2e/cluster/test-clean.sh
step failed-up 5 e2e/cluster/test-failed-up.sh

printf '%s\n' "${summary[@]}"
rm -rf "$logs"
