#!/usr/bin/env bash
# Builds the test tools named: coredns, helm. Prints their paths.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here

helm_flags() {
  local version
  version=$(awk '$1 == "helm.sh/helm/v3" {print $2; exit}' "$here/helm/go.mod")
  printf -- '-X helm.sh/helm/v3/internal/version.version=%s' "$version"
}

build_tool() {
  case $1 in
    coredns) "$here/go-binary.sh" "$here/coredns" . coredns ;;
    helm) "$here/go-binary.sh" "$here/helm" helm.sh/helm/v3/cmd/helm helm "$(helm_flags)" ;;
    *)
      printf 'build.sh: unknown tool "%s"; known are coredns and helm\n' "$1" >&2
      return 2
      ;;
  esac
}

[[ $# -gt 0 ]] || { printf 'usage: build.sh coredns|helm ...\n' >&2; exit 2; }
for tool in "$@"; do
  build_tool "$tool"
done
