#!/usr/bin/env bash
# Plants the defects of this folder in a copy of the product, and expects the stories of operator/tests/faults to find
# each of them. Without arguments all of them; else those that are named.
#
# All are compiled in at once, and SLIPWAY_PLANTED names the one that a run has. The copy is that of the last commit, in
# a folder of its own: no defect is ever in the checkout. Only crates of the workspace are compiled again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
planted=$PWD/operator/tests/planted
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${SLIPWAY_CACHE:-$HOME/.cache/slipway}/target}
tree=$CARGO_TARGET_DIR/planted

if [[ $# -eq 0 ]]; then
  mapfile -t all < <(basename --suffix .patch "$planted"/*.patch)
  set -- "${all[@]}"
fi
[[ -d $tree/.git ]] || git clone --quiet --shared --no-checkout . "$tree"
git -C "$tree" fetch --quiet "$PWD" HEAD
git -C "$tree" checkout --quiet --force --detach FETCH_HEAD
git -C "$tree" apply "$planted"/*.patch
cd "$tree"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo test --workspace --locked --test faults --no-run 2>&1 | tee "$log"
tests=$(sed -n 's/.*tests\/faults\/main.rs (\(.*\))$/\1/p' "$log")

hunt() { # NAME
  SLIPWAY_PLANTED=$1 "$tests" --include-ignored --nocapture --exact planted::a_defect_in_the_product_is_found >"$log" 2>&1
}
# The executable runs where cargo would run it.
cd operator
missed=()
for name in "$@"; do
  [[ -e $planted/$name.patch ]] || { echo "$planted has no $name.patch" >&2; exit 2; }
  started=$SECONDS
  if hunt "$name"; then
    printf '%s: %s (%d s)\n' "$name" "$(grep --max-count 1 '^found ' "$log")" $((SECONDS - started))
  elif grep --quiet '^found nothing' "$log"; then
    missed+=("$name")
    printf '%s: MISSED, %s\n' "$name" "$(grep '^nothing after' "$log")"
  else
    cat "$log"
    echo "$name: the test did not run to its end" >&2
    exit 1
  fi
done
[[ ${#missed[@]} -eq 0 ]]
