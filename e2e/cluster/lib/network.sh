# shellcheck shell=bash disable=SC2034 # read by the files that source this one
# One veth pair to the host: 10.200.SLOT.1 there, 10.200.SLOT.2 in the cluster.
# The host side's name reserves the slot: the kernel lets only one make it.

POD_CIDR=10.244.0.0/16
SERVICE_CIDR=10.96.0.0/16
DNS_IP=10.96.0.10

host_ip() { printf '10.200.%s.1\n' "$(get slot)"; }

node_ip() { printf '10.200.%s.2\n' "$(get slot)"; }

host_link() { printf 'slipway%s\n' "$(get slot)"; }

is_subnet_used() {
  ip -4 route show to match "$1" | grep -qv '^default' || [[ -n $(ip -4 route show to root "$1") ]]
}

reserve_slot() {
  local slot
  for slot in {0..63}; do
    is_subnet_used "10.200.$slot.0/30" && continue
    if ip link add "slipway$slot" type veth peer name "slipway${slot}p" 2>/dev/null; then
      put slot "$slot"
      ip address add "$(host_ip)/30" dev "slipway$slot"
      ip link set "slipway$slot" up
      return
    fi
  done
  say "no free subnet among 10.200.0.0/30 ... 10.200.63.0/30"
  return 1
}

# Hands the other end to the namespaces of process $1.
connect_network() { ip link set "$(host_link)p" netns "$1"; }

remove_network() {
  [[ -n $(get slot) ]] || return 0
  # The kernel removes the pair itself once the cluster's namespace has ended, perhaps at this moment.
  ip link delete "$(host_link)" 2>/dev/null || ! ip link show "$(host_link)" >/dev/null 2>&1
}

# Inside the namespaces. There is no way out but the host itself: an address of
# the world is unreachable within a second instead of after a timeout.
set_up_inner_network() {
  local link _
  link=$(host_link)p
  for _ in {1..100}; do
    ip link show "$link" >/dev/null 2>&1 && break
    sleep 0.05
  done
  ip link set lo up
  ip link set "$link" name eth0
  ip address add "$(node_ip)/30" dev eth0
  ip link set eth0 up
  ip route add unreachable default
  # The node's own packets to Services need a route before kube-proxy's rules
  # see them.
  ip route add "$SERVICE_CIDR" dev eth0
  # Else only the first packets to an unreachable address are answered.
  sysctl -qw net.ipv4.icmp_ratelimit=0
  sysctl -qw net.ipv4.ip_forward=1
  sysctl -qw net.bridge.bridge-nf-call-iptables=1 ||
    say "net.bridge.bridge-nf-call-iptables is missing: load br_netfilter, or pods reach no Service of a pod of the same node"
}
