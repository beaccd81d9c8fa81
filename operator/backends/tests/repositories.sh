#!/usr/bin/env bash
# Fills templates of every release, writes the repositories of engines without a build, and reads the results with Triton's own
# protobuf, in a virtual environment below SLIPWAY_CACHE. With a folder of upstream's templates (<release>/<model>/config.pbtxt) it fills those instead.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${SLIPWAY_CACHE:-$HOME/.cache/slipway}/model
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

digest=$(python3 -c 'import sys; print(sys.version)' | cat - "$here/requirements.txt" | sha256sum | cut -c1-16)
environment=$cache/tensorrt-llm-$digest
if [[ ! -e $environment/complete ]]; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$here/requirements.txt"
  touch "$environment/complete"
fi

templates=${1:-$work/templates}
if [[ $# == 0 ]]; then
  python3 "$here/repositories.py" make "$templates"
fi
# Built as everything is: one package alone would have other features, and compile what it needs once more.
cargo build --workspace --all-targets --locked --quiet
examples=${CARGO_TARGET_DIR:-$here/../../../target}/x86_64-unknown-linux-gnu/debug/examples
"$examples/repositories" "$templates" "$work/filled"
"$environment/bin/python" "$here/repositories.py" check "$work/filled"

# The repositories of engines without a build, as the worker writes them: that of vLLM, and that of an llmapi model made for tests.
python3 "$here/repositories.py" make-llmapi "$work/llmapi"
"$examples/no-build-repositories" "$work/llmapi" "$work/no-build"
"$environment/bin/python" "$here/repositories.py" check-no-build "$work/no-build"
