#!/usr/bin/env bash
# Makes copies of Traefik's and lego's sources without what no test here uses, and prints the arguments for `go build`.
#
#   prepare.sh MODULE_DIR
#
# Traefik holds a client for every provider and every DNS service: more than half of its source, and 9 tenths of what a
# Kubernetes build has not compiled already. A file below `without/` takes the place of the file of the same path;
# a package.go takes the place of the whole package. What is left out refuses to start when it is configured.
set -euo pipefail
shopt -s inherit_errexit

readonly MODULES=(github.com/traefik/traefik/v3 github.com/go-acme/lego/v4)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# The path becomes a part of the binary, so it is the same at every build.
copies=${SLIPWAY_CACHE:-$HOME/.cache/slipway}/traefik
readonly here copies

# copy_module MODULE: prints the folder.
copy_module() {
  local module=$1 source copy=$copies/${1//\//-} file
  source=$(go list -m -f '{{.Dir}}' "$module")
  cp -r "$source" "$copy"
  chmod -R u+w "$copy"
  while IFS= read -r file; do
    file=${file#"$here/without/$module/"}
    [[ ${file##*/} != package.go ]] || rm "$copy/${file%/*}"/*.go
    cp "$here/without/$module/$file" "$copy/$file"
  done < <(find "$here/without/$module" -name '*.go')
  printf '%s\n' "$copy"
}

cd "$1"
export GOFLAGS=-mod=readonly
rm -rf "$copies"
mkdir -p "$copies"
go mod download "${MODULES[@]}"
cp go.sum "$copies/go.sum"
edits=()
for module in "${MODULES[@]}"; do
  edits+=("-replace=$module=$(copy_module "$module")")
done
cp go.mod "$copies/go.mod"
(cd "$copies" && go mod edit "${edits[@]}")
printf -- '-modfile=%s\n' "$copies/go.mod"
