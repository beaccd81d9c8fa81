# shellcheck shell=bash
# Fills the templates of config/ and manifests/ with the values of one cluster.

PAUSE_IMAGE=slipway.dev/pause:dev

render() {
  sed -e "s|@DIR@|$DIR|g" \
    -e "s|@IMAGE_STORE@|$IMAGE_STORE|g" \
    -e "s|@PAUSE_IMAGE@|$PAUSE_IMAGE|g" \
    -e "s|@RUNTIME_BINARY@|${SLIPWAY_RUNTIME_BINARY:-runc}|g" \
    -e "s|@NODE_IP@|$(node_ip)|g" \
    -e "s|@DNS_IP@|$DNS_IP|g" \
    -e "s|@POD_SUBNET@|${POD_CIDR%.0/16}.0/24|g" "$1"
}

render_all() {
  local file
  mkdir -p "$DIR/config/cni" "$DIR/config/manifests"
  for file in "$CLUSTER_SCRIPTS"/config/*.{toml,yaml,conf}; do
    render "$file" >"$DIR/config/${file##*/}"
  done
  render "$CLUSTER_SCRIPTS/config/bridge.conflist" >"$DIR/config/cni/10-bridge.conflist"
  for file in "$CLUSTER_SCRIPTS"/manifests/*.yaml; do
    render "$file" >"$DIR/config/manifests/${file##*/}"
  done
}
