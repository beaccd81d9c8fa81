# shellcheck shell=bash
# Keeps what pods leave behind: a refused or rolled back canary is gone before anybody looks. Sourced by rollout.sh.

readonly KEPT=$LOGS/kept KEEP_EVERY=10

# The log of each pod as it was last, and the GPU figures that its sidecar counted at each look.
keep_pods_of() {
  local pod file
  run_kubectl --namespace "$1" get pods --output json | gzip >"$KEPT/$1-pods-$(date +%s).json.gz"
  for pod in $(run_kubectl --namespace "$1" get pods --output name); do
    file=$KEPT/$1-${pod#pod/}
    run_kubectl --namespace "$1" logs "$pod" --all-containers --prefix --timestamps >"$file.new" && mv "$file.new" "$file.log"
    [[ $pod != pod/facts-agent-* ]] || {
      printf '# %s\n' "$(date +%s)"
      run_kubectl get --raw "/api/v1/namespaces/$1/pods/${pod#pod/}:9464/proxy/metrics" | grep slipway_gpu
    } >>"$file.gpu"
  done
}

keep_all() {
  local namespace
  mkdir -p "$KEPT"
  while sleep "$KEEP_EVERY"; do
    for namespace in "$NAMESPACE" "$SYSTEM_NAMESPACE" gateway; do
      keep_pods_of "$namespace" || true
    done
    in_namespace get agentdeployments,engines,profiles,events --output yaml >"$KEPT/objects.new" &&
      mv "$KEPT/objects.new" "$KEPT/objects.yaml"
  done
}

# Until this script ends. A pod that is not there yet has no log, which is no error.
keep_what_pods_leave() {
  keep_all >/dev/null 2>&1 &
  # shellcheck disable=SC2064 # the process is known now
  trap "end_tree $!; end_steps" EXIT
}
