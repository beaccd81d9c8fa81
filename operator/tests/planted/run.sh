#!/usr/bin/env bash
# Plants the defects of this folder in a copy of the product, and expects the stories of operator/tests/faults to find
# each of them. Without arguments all of them; else those that are named.
#
# All are compiled in at once, and SLIPWAY_PLANTED names the one that a run has. The copy is that of the last commit. It
# lies in $SLIPWAY_CACHE/planted, with all that is compiled from it: no defect is ever in the checkout, or in the folder
# that it is built in. The copy goes at the end. With SLIPWAY_KEEP_PLANTED=1 it stays, and the next run compiles less.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
planted=$PWD/operator/tests/planted
cache=${SLIPWAY_CACHE:-$HOME/.cache/slipway}
built=${CARGO_TARGET_DIR:-$cache/target}
folder=$cache/planted
tree=$folder/tree
export CARGO_TARGET_DIR=$folder/target CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}

if [[ $# -eq 0 ]]; then
  mapfile -t all < <(basename --suffix .patch "$planted"/*.patch)
  set -- "${all[@]}"
fi
for name in "$@"; do
  [[ -e $planted/$name.patch ]] || { echo "$planted has no $name.patch" >&2; exit 2; }
done

# A second caller waits.
mkdir -p "$cache"
exec {lock}>"$cache/planted.lock"
flock "$lock"
log=$(mktemp)
leave() {
  rm -f "$log"
  [[ ${SLIPWAY_KEEP_PLANTED:-} == 1 ]] || rm -rf "$folder"
}
trap leave EXIT

# Dependencies are compiled once: those of the checkout are taken over, but nothing of the workspace. The compiler
# replaces files and never writes into them, so libraries are linked. What cargo and build scripts write into is copied.
take_dependencies() { # PROFILE
  local from=$built/$1 to=$CARGO_TARGET_DIR/$1
  [[ -d $from/.fingerprint && -d $from/build && -d $from/deps && ! -d $to ]] || return 0
  mkdir -p "$to"/{.fingerprint,build,deps}
  find "$from/.fingerprint" -mindepth 1 -maxdepth 1 ! -name 'slipway-*' -exec cp --archive -t "$to/.fingerprint" {} +
  find "$from/build" -mindepth 1 -maxdepth 1 ! -name 'slipway-*' -exec cp --archive -t "$to/build" {} +
  find "$from/deps" -maxdepth 1 -type f ! -name 'libslipway_*' \( -name '*.rlib' -o -name '*.rmeta' -o -name '*.so' \) \
    -exec cp --archive --link -t "$to/deps" {} +
}
# Without them, as on another filesystem, all is compiled.
for profile in debug x86_64-unknown-linux-gnu/debug; do
  take_dependencies "$profile" || rm -rf "${CARGO_TARGET_DIR:?}/$profile"
done

[[ -d $tree/.git ]] || git clone --quiet --shared --no-checkout . "$tree"
git -C "$tree" fetch --quiet "$PWD" HEAD
git -C "$tree" checkout --quiet --force --detach FETCH_HEAD
git -C "$tree" apply "$planted"/*.patch
cd "$tree"
cargo test --workspace --locked --test faults --no-run 2>&1 | tee "$log"
tests=$(sed -n 's/.*tests\/faults\/main.rs (\(.*\))$/\1/p' "$log")

hunt() { # NAME
  SLIPWAY_PLANTED=$1 "$tests" --include-ignored --nocapture --exact planted::a_defect_in_the_product_is_found >"$log" 2>&1
}
# The executable runs where cargo would run it.
cd operator
missed=()
for name in "$@"; do
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
