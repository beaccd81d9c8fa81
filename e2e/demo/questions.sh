#!/usr/bin/env bash
# Asks the demo's agent questions that its model has never seen, and fails when too few are answered exactly.
# `make demo-questions` calls it after `make demo`; DEMO_KUBECONFIG and its companions are those of up.sh.
#
#   questions.sh [AGENT]
#
#   SLIPWAY_QUESTIONS=N          how many (default: 200)
#   SLIPWAY_EXACT_PERCENT=N      how many of 100 must be right (default: 95)
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=steps.sh
source "$here/steps.sh"
# shellcheck source=common.sh
source "$here/common.sh"
# shellcheck source=agent.sh
source "$here/agent.sh"

name_tools
mkdir -p "$LOGS"
open_step "held-out questions" "$(kubectl_line) -n $NAMESPACE get agd,pods" ask_held_out "$@"
