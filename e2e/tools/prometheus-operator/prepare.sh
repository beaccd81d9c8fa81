#!/usr/bin/env bash
# Makes a copy of Prometheus' source that discovers Kubernetes' pods and services alone, and prints the arguments for
# `go build`. Its other discoveries are clients of clouds, and most of what would be compiled.
#
#   prepare.sh MODULE_DIR
set -euo pipefail
shopt -s inherit_errexit

readonly MODULE=github.com/prometheus/prometheus
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# The path becomes a part of the binary, so it is the same at every build.
copies=${SLIPWAY_CACHE:-$HOME/.cache/slipway}/prometheus-operator
readonly here copies

cd "$1"
export GOFLAGS=-mod=readonly
rm -rf "$copies"
mkdir -p "$copies"
go mod download "$MODULE"
cp -r "$(go list -m -f '{{.Dir}}' "$MODULE")" "$copies/prometheus"
chmod -R u+w "$copies"
rm "$copies"/prometheus/plugins/*.go
cp "$here"/without/plugins/plugins.go "$copies/prometheus/plugins/plugins.go"
# The operator wants a client of Kubernetes whose handler has one argument more than that of Prometheus' own.
sed -i 's/cache.DefaultWatchErrorHandler(r, err)/cache.DefaultWatchErrorHandler(context.Background(), r, err)/' \
  "$copies/prometheus/discovery/kubernetes/kubernetes.go"
cp go.mod go.sum "$copies"
(cd "$copies" && go mod edit "-replace=$MODULE=$copies/prometheus")
printf -- '-modfile=%s\n' "$copies/go.mod"
