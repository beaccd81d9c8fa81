#!/usr/bin/env bash
# Installs the Debian packages that the cluster and its images need, if any of
# them is missing. Needs root and, only when something is missing, apt.
#
#   prerequisites.sh             what the cluster and its images need
#   prerequisites.sh COMMAND...  what some tests need besides: promtool, prometheus, redis-server, git, ipset, node, npm,
#                                ensurepip (for Python's environments)
set -euo pipefail

# Command or file that proves it is there -> package of Debian 12. Debian 13 has them by these names. So should Ubuntu
# 24.04, where nothing was tried.
declare -rA PACKAGES=(
  [containerd]=containerd
  [runc]=runc
  [/usr/lib/cni/bridge]=containernetworking-plugins
  [iptables]=iptables
  [ip]=iproute2
  [conntrack]=conntrack
  [nsenter]=util-linux
  [mount]=mount
  [openssl]=openssl
  [curl]=curl
  [buildah]=buildah
  [ps]=procps
  [python3]=python3
  [pip3]=python3-pip
  [mmdebstrap]=mmdebstrap
  [/usr/share/keyrings/debian-archive-keyring.gpg]=debian-archive-keyring
  [strip]=binutils
)
declare -rA FURTHER_PACKAGES=(
  [promtool]=prometheus
  [prometheus]=prometheus
  [redis-server]=redis-server
  [git]=git
  [ipset]=ipset
  [node]=nodejs
  [npm]=npm
  [ensurepip]=python3-venv
)

is_there() {
  case $1 in
    ensurepip) python3 -c 'import ensurepip' 2>/dev/null ;;
    *.gpg) [[ -e $1 ]] ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

missing_packages() {
  local probe
  for probe in "${!PACKAGES[@]}"; do
    is_there "$probe" || printf '%s\n' "${PACKAGES[$probe]}"
  done
}

missing_further_packages() {
  local probe
  for probe in "$@"; do
    is_there "$probe" || printf '%s\n' "${FURTHER_PACKAGES[$probe]}"
  done
}

if [[ $# -gt 0 ]]; then
  for probe in "$@"; do
    [[ -v FURTHER_PACKAGES[$probe] ]] || { printf 'prerequisites.sh: no package is known to hold %s\n' "$probe" >&2; exit 2; }
  done
  mapfile -t missing < <(missing_further_packages "$@")
else
  mapfile -t missing < <(missing_packages)
fi
[[ ${#missing[@]} -gt 0 ]] || exit 0

if [[ $EUID -ne 0 ]]; then
  printf 'prerequisites.sh: not root; install these yourself: %s\n' "${missing[*]}" >&2
  exit 1
fi
printf 'installing %s\n' "${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# Services of the packages (containerd, Prometheus) are not to be started.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
fi
apt-get install -qq --no-install-recommends "${missing[@]}" >&2
