# shellcheck shell=bash
# Brings the programs to the machine that a cluster needs. Sourced by node.sh.

readonly MACHINE_COMMANDS=(containerd ctr runc iptables iptables-restore ip conntrack /usr/lib/cni/bridge)

prepare_machine() {
  local name missing=()
  for name in "${MACHINE_COMMANDS[@]}"; do
    command -v "$name" >/dev/null || missing+=("$name")
  done
  if [[ ${#missing[@]} -gt 0 ]]; then
    printf 'missing: %s\n' "${missing[*]}"
    unpack_packages
  fi
  for name in "${MACHINE_COMMANDS[@]}" openssl curl nsenter unshare findmnt python3; do
    command -v "$name" || { printf '%s is missing, and no part has it\n' "$name" && return 1; }
  done
  # Built in, or loaded already, where this fails; what is truly missing shows in the cluster's log.
  for name in overlay br_netfilter veth nf_tables; do
    modprobe "$name" 2>/dev/null || true
  done
  mkdir -p "$SLIPWAY_CACHE/bin"
  ln -sfn "$PARTS"/programs/{helm,kubectl} "$SLIPWAY_CACHE/bin/"
}

# Files that the machine has stay as they are: this is no installation, and its packages know nothing of it.
unpack_packages() {
  local package name
  for package in "$PARTS"/packages/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar --extract --directory / --skip-old-files --keep-directory-symlink
  done
  # What Debian's alternatives would do.
  for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    [[ -e /usr/sbin/$name ]] || ln -s "${name/tables/tables-nft}" "/usr/sbin/$name"
  done
  ldconfig
}
