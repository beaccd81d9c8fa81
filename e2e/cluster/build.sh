#!/usr/bin/env bash
# Builds slipway-cluster (the Kubernetes components), coredns and slipway-pause.
# Prints their paths; a warm call costs some milliseconds.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here

# Without these the API server reports v0.0.0 and clients refuse features.
version_flags() {
  local version package
  version=$(awk '$1 == "k8s.io/kubernetes" {print $2; exit}' "$here/go.mod")
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf -- '-X %s.%s=%s ' \
      $package gitVersion "$version" \
      $package gitMajor 1 \
      $package gitMinor "$(cut -d. -f2 <<<"$version")" \
      $package gitTreeState clean \
      $package buildDate 1970-01-01T00:00:00Z
  done
}

"$here/../tools/go-binary.sh" "$here" "$(version_flags)" slipway.dev/e2e/cluster=slipway-cluster \
  slipway.dev/e2e/cluster/coredns=coredns slipway.dev/e2e/cluster/pause=slipway-pause
