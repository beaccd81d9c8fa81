# shellcheck shell=bash
# Packs the parts and cuts them into pieces. Sourced by parts.sh.

readonly PIECE_MIB=30

# What is compressed already is only put together.
compressor_of() {
  case $1 in
    packages | wheels | stub) printf 'cat\n' ;;
    *) printf '%s\n' "${SLIPWAY_GPU_COMPRESSOR:-xz --threads=0 -2}" ;;
  esac
}

# Of names, modes, links and contents.
content_key() {
  tar --create --directory "$1" --sort=name --mtime=@0 --owner=0 --group=0 . | sha256sum | cut -c1-16
}

# A part that did not change keeps its pieces.
pack() {
  local name=$1 key compressor
  key=$(content_key "$GATHERED/$name")
  if [[ $(cat "$PIECES/.$name.key" 2>/dev/null) == "$key" ]]; then
    say "$name: unchanged"
    return
  fi
  rm -f "$PIECES/$name.part-"* "$PIECES/.$name.key"
  read -ra compressor < <(compressor_of "$name")
  tar --create --directory "$GATHERED/$name" --sort=name --owner=0 --group=0 . | nice -n 10 "${compressor[@]}" |
    split --bytes="${PIECE_MIB}M" --numeric-suffixes --suffix-length=2 - "$PIECES/$name.part-"
  printf '%s\n' "$key" >"$PIECES/.$name.key"
  say "$name: $(find "$PIECES" -name "$name.part-*" | wc -l) pieces"
}

# Pieces of parts that an earlier call packed, and this one does not.
remove_others() {
  local piece name
  for piece in "$PIECES"/*.part-00; do
    name=$(basename "$piece" .part-00)
    [[ " ${ALL_PARTS[*]} " == *" $name "* ]] || rm -f "$PIECES/$name.part-"* "$PIECES/.$name.key"
  done
}

pack_all() {
  local name
  mkdir -p "$PIECES"
  remove_others
  for name in "${ALL_PARTS[@]}"; do
    pack "$name"
  done
  cp "$GPU_SCRIPTS/start.sh" "$PIECES/start.sh"
  (cd "$PIECES" && sha256sum ./*.part-* start.sh >SHA256SUMS)
}

tell_pieces() {
  local pieces
  pieces=$(find "$PIECES" -name '*.part-*' | wc -l)
  say "$pieces pieces, $(du --summarize --human-readable "$PIECES" | cut -f1), in $PIECES"
}
