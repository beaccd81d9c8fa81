#!/usr/bin/env bash
# Accepts Slipway on a cluster with NVIDIA's GPUs and images: builds engines in FP16, FP8 and INT8 with TensorRT-LLM, runs
# both labs' manifests, splits an engine over two GPUs where there are two, serves, measures and rolls out. One report has
# versions, times, and every difference from what Slipway's stand-ins do.
#
#   accept.sh --kubeconfig FILE [OPTION...]
#
#   --kubeconfig FILE    the cluster; Slipway must be installed there (README.md, "On your cluster")
#   --context NAME       its context (default: the file's current one)
#   --namespace NAME     where everything goes (default: slipway-acceptance)
#   --output FOLDER      logs, what was seen, and report.md (default: slipway-acceptance in this folder)
#   --model URI          a Llama (default: hf://meta-llama/Llama-3.1-8B-Instruct@main)
#   --version VERSION    of TensorRT-LLM (default: 0.16.0)
#   --image IMAGE        with its tools and Triton (default: NVIDIA's of that version)
#   --product NAME       nvidia.com/gpu.product of the nodes (default: that of the first node that has one)
#   --only STEP,STEP...  these steps alone, again
#   --stand-ins          on a cluster of `make demo`, without a GPU: shows that this script works, and nothing else
#   --dry-run            prints the manifests and checks them; no cluster is asked
#   --clean              removes all that the script made in the cluster
#
#   HF_TOKEN=TOKEN       access to the model on Hugging Face
#   KUBECTL=, SLIPWAY=   the programs kubectl and kubectl-slipway, where they are not on the PATH
#
# A second call goes on where the first one stopped: steps that ended well are not repeated.
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
REPOSITORY=$(cd "$here/../.." && pwd)
readonly here REPOSITORY # the parts read both
for part in options cluster agents steps; do
  # shellcheck source=/dev/null
  source "$here/accept/$part.sh"
done
# shellcheck source=../demo/services.sh
source "$REPOSITORY/e2e/demo/services.sh"

# Those that later ones need; without them nothing goes on.
readonly NEEDED=(tools gpus workload probe)
readonly MEASURED=(precisions lab_react lab_int8 tp2 rollout)

main() {
  local name
  read_options "$@"
  if [[ -n $DRY_RUN ]]; then
    dry_run
    return
  fi
  [[ -r $KUBECONFIG_FILE ]] || die "--kubeconfig names no readable file: ${KUBECONFIG_FILE:-nothing}"
  if [[ -n $CLEAN ]]; then
    clean
    return
  fi
  mkdir -p "$OUTPUT"/{steps,logs,manifests,seen}
  for name in "${NEEDED[@]}"; do
    run_step "$name"
    [[ -z ${FAILED[*]} ]] || break
  done
  if [[ -z ${FAILED[*]} ]]; then
    for name in "${MEASURED[@]}"; do
      run_step "$name"
    done
  fi
  write_report
  [[ -z ${FAILED[*]} ]] || die "these steps failed: ${FAILED[*]}; repair what their logs name, and call the script again"
}

main "$@"
