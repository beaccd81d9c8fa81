#!/usr/bin/env bash
# Makes the test tools named: argocd, helm, kubectl, traefik. Prints their paths.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here

# In the module of the cluster, whose Kubernetes libraries it shares.
build_traefik() {
  local module=$here/../cluster package=github.com/traefik/traefik/v3 version
  version=$(awk -v package="$package" '$1 == package {print $2; exit}' "$module/go.mod")
  "$here/go-binary.sh" --prepare "$here/traefik/prepare.sh" "$module" \
    "-X $package/pkg/version.Version=${version#v}" "$package/cmd/traefik=traefik"
}

# A module of its own: Argo CD's versions of Kubernetes are not those of the cluster.
build_argocd() {
  local module=$here/argocd package=github.com/argoproj/argo-cd/v3 version
  version=$(awk -v package="$package" '$2 == package {print $3; exit}' "$module/go.mod")
  "$here/go-binary.sh" "$module" "-X $package/common.version=${version#v}" "$package/cmd=argocd"
}

make_tool() {
  case $1 in
    helm | kubectl) "$here/clients/fetch.sh" | grep "/$1\$" ;;
    argocd) build_argocd ;;
    traefik) build_traefik ;;
    *)
      printf 'build.sh: unknown tool "%s"; known are argocd, helm, kubectl and traefik\n' "$1" >&2
      return 2
      ;;
  esac
}

[[ $# -gt 0 ]] || { printf 'usage: build.sh argocd|helm|kubectl|traefik ...\n' >&2; exit 2; }
for tool in "$@"; do
  make_tool "$tool"
done
