# shellcheck shell=bash
# How a script reaches the services of an agent's namespace: through the API server.

# with_services COMMAND...: it finds the namespace's services below $SERVICES. `kubectl replace --raw` says no content
# type, hence the proxy. It ends with the command's status; within it a failure does not end the script by itself.
with_services() {
  local proxy address status=0
  # Without the exec it would outlive the shell that is killed below, and hold the log of this step open.
  coproc PROXY {
    exec "$KUBECTL" --kubeconfig "$KUBECONFIG_FILE" ${CONTEXT:+--context "$CONTEXT"} proxy --port 0
  }
  proxy=$PROXY_PID
  read -r -t 20 -u "${PROXY[0]}" address
  SERVICES=http://${address##* }/api/v1/namespaces/$NAMESPACE/services "$@" || status=$?
  kill "$proxy"
  wait "$proxy" || true
  return "$status"
}
