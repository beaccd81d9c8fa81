#!/usr/bin/env bash
# Builds the test tools named: coredns, helm, traefik. Prints their paths.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here

helm_flags() {
  local version
  version=$(awk '$1 == "helm.sh/helm/v3" {print $2; exit}' "$here/helm/go.mod")
  printf -- '-X helm.sh/helm/v3/internal/version.version=%s' "$version"
}

traefik_flags() {
  local version
  version=$(awk '$1 == "github.com/traefik/traefik/v3" {print $2; exit}' "$here/traefik/go.mod")
  printf -- '-X github.com/traefik/traefik/v3/pkg/version.Version=%s' "${version#v}"
}

build_tool() {
  case $1 in
    coredns) "$here/go-binary.sh" "$here/coredns" . coredns ;;
    helm) "$here/go-binary.sh" "$here/helm" helm.sh/helm/v3/cmd/helm helm "$(helm_flags)" ;;
    traefik) "$here/go-binary.sh" "$here/traefik" github.com/traefik/traefik/v3/cmd/traefik traefik "$(traefik_flags)" ;;
    *)
      printf 'build.sh: unknown tool "%s"; known are coredns, helm and traefik\n' "$1" >&2
      return 2
      ;;
  esac
}

[[ $# -gt 0 ]] || { printf 'usage: build.sh coredns|helm|traefik ...\n' >&2; exit 2; }
for tool in "$@"; do
  build_tool "$tool"
done
