#!/usr/bin/env bash
# Plants each defect of this folder in the product, one after the other, and expects the test that it names to fail.
# Without arguments all of them; else those files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
planted=operator/tests/planted
[[ $# -gt 0 ]] || set -- "$planted"/*.patch

if [[ -n "$(git status --porcelain -- crds operator)" ]]; then
  echo "commit your changes first: defects are planted in this checkout" >&2
  exit 2
fi
clean() {
  git checkout --quiet -- crds operator
  # Where a property test keeps the histories that failed.
  git clean --quiet --force -d -- operator/core/proptest-regressions
}
trap clean EXIT

log=$(mktemp)
missed=()
for patch in "$@"; do
  caught_by=$(sed -n 's/^Caught by: //p' "$patch")
  read -ra target <<<"${caught_by%% -- *}"
  read -ra name <<<"${caught_by#* -- }"
  git apply "$patch"
  cargo test --workspace --locked "${target[@]}" --no-run >"$log" 2>&1 || { cat "$log"; echo "$patch: does not compile" >&2; exit 1; }
  if cargo test --workspace --locked "${target[@]}" --no-fail-fast -- "${name[@]}" >"$log" 2>&1; then
    missed+=("$patch")
    echo "MISSED $patch by $caught_by"
  elif grep -q '^test .* FAILED$' "$log"; then
    echo "caught $patch by $(grep -m 1 '^test .* FAILED$' "$log" | cut -d ' ' -f 2)"
  else
    cat "$log"
    echo "$patch: the tests did not run" >&2
    exit 1
  fi
  clean
done
[[ ${#missed[@]} -eq 0 ]]
