#!/usr/bin/env bash
# Makes the test tools named: argocd, flux, helm, kubectl, kube-router, metrics-server, prometheus-operator, traefik.
# Prints their paths.
# Flux is its source and its kustomize controller. With the Prometheus operator come its config reloader, Prometheus and
# Alertmanager.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here

# version_in MODULE_DIR PACKAGE: as a block of requirements has it, without its v.
version_in() { awk -v package="$2" '$1 == package {print substr($2, 2); exit}' "$1/go.mod"; }

# In the module of the cluster, whose Kubernetes libraries it shares.
build_traefik() {
  local module=$here/../cluster package=github.com/traefik/traefik/v3 version
  version=$(version_in "$module" "$package")
  "$here/go-binary.sh" --prepare "$here/traefik/prepare.sh" "$module" \
    "-X $package/pkg/version.Version=$version" "$package/cmd/traefik=traefik"
}

# A module of its own: Argo CD's versions of Kubernetes are not those of the cluster.
build_argocd() {
  local module=$here/argocd package=github.com/argoproj/argo-cd/v3 version
  version=$(awk -v package="$package" '$2 == package {print $3; exit}' "$module/go.mod")
  "$here/go-binary.sh" "$module" "-X $package/common.version=${version#v}" "$package/cmd=argocd"
}

# A module of its own, for the same reason. Both share Kubernetes' packages.
build_flux() {
  "$here/go-binary.sh" "$here/flux" "" github.com/fluxcd/source-controller=source-controller \
    github.com/fluxcd/kustomize-controller=kustomize-controller
}

# A module of its own, for the same reason.
build_metrics_server() {
  local module=$here/metrics-server package=sigs.k8s.io/metrics-server version
  version=$(awk -v package="$package" '$2 == package {print $3; exit}' "$module/go.mod")
  "$here/go-binary.sh" "$module" "-X $package/pkg/version.gitVersion=$version" "$package/cmd/metrics-server=metrics-server"
}

# A module of its own, for the same reason.
build_kube_router() {
  local module=$here/kube-router package=github.com/cloudnativelabs/kube-router/v2 version
  version=$(awk -v package="$package" '$2 == package {print $3; exit}' "$module/go.mod")
  "$here/go-binary.sh" "$module" "-X $package/pkg/version.Version=$version" "$package/cmd/kube-router=kube-router"
}

# All four share Prometheus' packages. Their interfaces for browsers are left out.
build_prometheus_operator() {
  local module=$here/prometheus-operator operator=github.com/prometheus-operator/prometheus-operator common
  common=github.com/prometheus/common/version.Version=$(version_in "$module" github.com/prometheus/prometheus)
  "$here/go-binary.sh" --prepare "$module/prepare.sh" "$module" "-X $common" "$operator/cmd/operator=prometheus-operator" \
    "$operator/cmd/prometheus-config-reloader=prometheus-config-reloader" \
    github.com/prometheus/prometheus/cmd/prometheus=prometheus github.com/prometheus/alertmanager/cmd/alertmanager=alertmanager
}

make_tool() {
  case $1 in
    helm | kubectl) "$here/clients/fetch.sh" | grep "/$1\$" ;;
    argocd) build_argocd ;;
    flux) build_flux ;;
    kube-router) build_kube_router ;;
    metrics-server) build_metrics_server ;;
    prometheus-operator) build_prometheus_operator ;;
    traefik) build_traefik ;;
    *)
      printf 'build.sh: unknown tool "%s"; known are argocd, flux, helm, kubectl, kube-router, metrics-server, %s\n' \
        "$1" "prometheus-operator and traefik" >&2
      return 2
      ;;
  esac
}

[[ $# -gt 0 ]] || {
  printf 'usage: build.sh argocd|flux|helm|kubectl|kube-router|metrics-server|prometheus-operator|traefik ...\n' >&2
  exit 2
}
for tool in "$@"; do
  make_tool "$tool"
done
