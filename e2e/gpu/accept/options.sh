# shellcheck shell=bash disable=SC2034,SC2154 # read by the files beside this one
# What the acceptance kit is asked for. Sourced by accept.sh.

KUBECONFIG_FILE='' CONTEXT='' NAMESPACE=slipway-acceptance OUTPUT=$PWD/slipway-acceptance ONLY='' STAND_INS='' DRY_RUN='' CLEAN=''
MODEL='' VERSION=0.16.0 IMAGE='' PRODUCT=''
FAILED=()

die() {
  printf 'accept.sh: %s\n' "$*" >&2
  exit 1
}

usage() { sed -n '/^#   accept.sh/,/^# A second call/p' "$here/accept.sh" | sed '$d; s/^# \{0,1\}//'; }

read_options() {
  while [[ $# -gt 0 ]]; do
    case $1 in
      --stand-ins) STAND_INS=yes ;;
      --dry-run) DRY_RUN=yes ;;
      --clean) CLEAN=yes ;;
      --help | -h) usage && exit 0 ;;
      --kubeconfig | --context | --namespace | --output | --model | --version | --image | --product | --only)
        [[ $# -ge 2 ]] || die "$1 needs a value"
        take_value "$1" "$2"
        shift
        ;;
      *) die "unknown option $1; accept.sh --help lists them" ;;
    esac
    shift
  done
  [[ $NAMESPACE =~ ^[a-z0-9]([-a-z0-9]*[a-z0-9])?$ ]] || die "--namespace $NAMESPACE is not a valid name of a namespace"
  [[ $VERSION =~ ^[0-9]+\.[0-9]+\.[0-9]+ ]] || die "--version $VERSION is not a version, such as 0.16.0"
  settle_defaults
}

take_value() {
  case $1 in
    --kubeconfig) KUBECONFIG_FILE=$2 ;;
    --context) CONTEXT=$2 ;;
    --namespace) NAMESPACE=$2 ;;
    --output) OUTPUT=$(realpath --canonicalize-missing "$2") ;;
    --model) MODEL=$2 ;;
    --version) VERSION=$2 ;;
    --image) IMAGE=$2 ;;
    --product) PRODUCT=$2 ;;
    --only) ONLY=,$2, ;;
  esac
}

# A stand-in has the tables of one version, and the demo's small Llama as its model.
settle_defaults() {
  if [[ -n $STAND_INS ]]; then
    [[ $VERSION == 0.16.0 ]] || die "the stand-ins are of 0.16.0: leave --version out"
    : "${MODEL:=http://models/react-512/}" "${IMAGE:=slipway.dev/slipway-tensorrt-llm-stand-in:dev}"
    : "${PRODUCT:=NVIDIA-H100-80GB-HBM3}"
  fi
  : "${MODEL:=hf://meta-llama/Llama-3.1-8B-Instruct@main}"
  [[ -z $DRY_RUN ]] || : "${PRODUCT:=NVIDIA-H100-80GB-HBM3}"
}

find_program() {
  local program
  for program in "$@"; do
    [[ -n $program ]] || continue
    command -v "$program" && return
  done
  return 1
}

cached=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
KUBECTL=$(find_program "${KUBECTL:-}" kubectl "$cached/bin/kubectl") || KUBECTL=''
SLIPWAY=$(find_program "${SLIPWAY:-}" kubectl-slipway \
  "${CARGO_TARGET_DIR:-$cached/target}/x86_64-unknown-linux-gnu/debug/kubectl-slipway") || SLIPWAY=''
