#!/usr/bin/env bash
# The demo: from a bare machine to an agent that answers. `make demo` calls it; a second call uses what is there.
#
#   DEMO_KUBECONFIG=FILE   an existing cluster instead of one of its own; the ambient KUBECONFIG is never used
#   DEMO_CONTEXT=NAME      its context (default: the file's current one)
#   DEMO_REGISTRY=PREFIX   where its nodes pull the images from, as in registry.example/team
#   DEMO_NAMESPACE=NAME    where the agent goes, and on an existing cluster the operator too (default: slipway-demo)
set -euo pipefail
shopt -s inherit_errexit

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=steps.sh
source "$here/steps.sh"
# shellcheck source=common.sh
source "$here/common.sh"

readonly REPORT=$LOGS/facts-agent.html
IMAGES=(slipway-operator slipway-worker slipway-agent-runtime slipway-e2e slipway-triton slipway-model-builder)

build_binaries() { cargo build --workspace --bins --locked; }

start_cluster() { e2e/cluster/up.sh --name "$CLUSTER" >"$LOGS/kubeconfig"; }

# Once for all steps: what demo-down may remove is what lies in a namespace of this label.
create_namespace() {
  run_kubectl get namespace "$NAMESPACE" 2>/dev/null || {
    run_kubectl create namespace "$NAMESPACE"
    run_kubectl label namespace "$NAMESPACE" "$OURS" pod-security.kubernetes.io/enforce=restricted
  }
}

# install RELEASE OPTION...: unless somebody else's release of the name is there, which is used as it is.
install() {
  local release=$1 owner
  shift
  owner=$(namespace_of_release "$release")
  if [[ -n $owner && $owner != "$SYSTEM_NAMESPACE" ]]; then
    printf 'using the release %s in namespace %s as it is\n' "$release" "$owner"
    return
  fi
  run_helm upgrade --install "$release" "charts/$release" --namespace "$SYSTEM_NAMESPACE" --create-namespace "$@"
}

# In a shell of its own, for that file has names of its own.
operator_image() (
  # shellcheck source=../images/lib/common.sh
  source e2e/images/lib/common.sh
  image_id "$(tag_of slipway-operator)"
)

install_charts() {
  local registry=() identity=()
  # The tag stays the same when the code changes: this is what replaces the operator's pod.
  [[ -n ${DEMO_KUBECONFIG:-} ]] || identity=(--set-string "podAnnotations.slipway\.dev/image=$(operator_image)")
  [[ -z ${DEMO_REGISTRY:-} ]] || registry=(
    --set "image.operator=$DEMO_REGISTRY/slipway-operator"
    --set "image.worker=$DEMO_REGISTRY/slipway-worker"
    --set "image.agentRuntime=$DEMO_REGISTRY/slipway-agent-runtime")
  create_namespace
  install slipway-crds
  install slipway --values e2e/manifests/values.yaml "${registry[@]}" "${identity[@]}" --wait --timeout 3m
}

# The manifests, with images from where the nodes pull them.
manifest() { sed "s|slipway\.dev/slipway-\([a-z0-9-]*\):dev|${DEMO_REGISTRY:-slipway.dev}/slipway-\1:dev|" "e2e/manifests/demo/$1"; }

# The traffic to measure with, and the questions that engines are judged by.
give_workload() {
  run_kubectl --namespace "$NAMESPACE" create configmap demo-workload --from-file e2e/manifests/demo/workload \
    --dry-run=client --output yaml | run_kubectl --namespace "$NAMESPACE" apply --server-side -f -
}

start_servers() {
  give_workload
  manifest servers.yaml | run_kubectl --namespace "$NAMESPACE" apply -f -
  run_kubectl --namespace "$NAMESPACE" rollout status deployment/models deployment/facts --timeout 2m
}

apply_agent() {
  manifest agent.yaml | run_kubectl --namespace "$NAMESPACE" apply -f -
  run_slipway wait facts-agent --timeout 10m
}

# A question that the model has never seen: names and numbers are drawn anew. The look-up service learns the numbers.
ask_agent() {
  local seed drawn question
  seed=$(date +%s)
  drawn=$(python3 e2e/model/questions.py --seed "$seed")
  question=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["question"])' <<<"$drawn")
  teach <<<"$drawn"
  run_slipway ask facts-agent "$question"
  printf 'The answer that the question was made with: %s\n' \
    "$(python3 -c 'import json, sys; print(json.load(sys.stdin)["answer"])' <<<"$drawn")"
}

# `kubectl replace --raw` says no content type, hence the proxy.
teach() {
  local entity property value proxy address
  # Without the exec it would outlive the shell that is killed below, and hold the log of this step open.
  coproc PROXY {
    exec "${KUBECTL[@]}" --kubeconfig "$KUBECONFIG_FILE" ${CONTEXT:+--context "$CONTEXT"} proxy --port 0
  }
  proxy=$PROXY_PID
  read -r -t 20 -u "${PROXY[0]}" address
  python3 -c 'import json, sys
for fact in json.load(sys.stdin)["lookups"]: print(fact["entity"], fact["property"], fact["value"])' |
    while read -r entity property value; do
      curl --silent --show-error --fail --request PUT --json "{\"value\": $value}" \
        "http://${address##* }/api/v1/namespaces/$NAMESPACE/services/facts:80/proxy/facts/$entity/$property"
    done
  kill "$proxy"
  wait "$proxy" || true
}

# Users, as many as spec.slo.throughput speaks of, so that there is something to observe beside what was predicted.
send_traffic() {
  run_kubectl --namespace "$NAMESPACE" delete job traffic --ignore-not-found --cascade=foreground
  manifest traffic.yaml | run_kubectl --namespace "$NAMESPACE" apply -f -
  run_kubectl --namespace "$NAMESPACE" wait --for='jsonpath={.status.ready}=1' --timeout=1m job/traffic
  run_kubectl --namespace "$NAMESPACE" logs --follow job/traffic
  run_kubectl --namespace "$NAMESPACE" wait --for=condition=Complete --timeout=1m job/traffic
}

write_report() { run_slipway report facts-agent --output "$REPORT"; }

# Evidence is counted in windows of ten seconds; the last one must have ended.
show_status() {
  sleep $((11 - $(date +%s) % 10))
  run_slipway status facts-agent
  printf '\n'
  run_kubectl --namespace "$NAMESPACE" get agd,engines,profiles
}

more_commands() {
  local place="--kubeconfig $KUBECONFIG_FILE${CONTEXT:+ --context $CONTEXT} --namespace $NAMESPACE"
  printf '\nLook further:\n'
  printf '  alias k="%s %s"\n' "${KUBECTL[*]}" "$place"
  printf '  k describe agd facts-agent\n  k get jobs,pods,engines\n  k get profiles -o yaml\n'
  printf '  %s %s status facts-agent\n' "${SLIPWAY[*]}" "$place"
  printf '  k apply -f e2e/manifests/demo/latency.yaml      # the same agent, other objectives: another campaign\n'
  printf 'The report of the campaign, for a browser:\n  %s\n' "$REPORT"
  printf '  make demo-down\n'
}

main() {
  local started=$SECONDS
  mkdir -p "$LOGS"
  if [[ -n ${DEMO_KUBECONFIG:-} ]]; then
    use_existing_cluster
    step "build" "install Rust from rustup.rs; the log names what does not compile" build_binaries
    step "helm" "install Go 1.26 from go.dev/dl" find_tools
  else
    [[ $EUID -eq 0 ]] || fail "root" /dev/null "run as root, or name a cluster with DEMO_KUBECONFIG=FILE"
    step "prerequisites" "install the packages that the log names" e2e/cluster/prerequisites.sh
    step "build" "install Rust from rustup.rs; the log names what does not compile" build_binaries
    step "images" "free disk space in $SLIPWAY_CACHE, and call make demo again: what was built is kept" \
      e2e/images/build.sh "${IMAGES[@]}"
    step "helm" "install Go 1.26 from go.dev/dl" find_tools
    step "cluster" "if another cluster holds the image store: e2e/cluster/down.sh --name THAT, or SLIPWAY_IMAGE_STORE=FOLDER make demo" \
      start_cluster
    step "import images" "make demo-down, and call make demo again" e2e/images/import.sh --name "$CLUSTER" "${IMAGES[@]}"
  fi
  name_tools
  step "install the charts" "${KUBECTL[*]} -n $SYSTEM_NAMESPACE describe pods" install_charts
  step "start model and look-up servers" "${KUBECTL[*]} -n $NAMESPACE describe pods" start_servers
  open_step "deploy the agent" "${KUBECTL[*]} -n $NAMESPACE describe agd facts-agent" apply_agent
  open_step "ask the agent" "${KUBECTL[*]} -n $NAMESPACE logs deploy/facts" ask_agent
  open_step "send traffic" "${KUBECTL[*]} -n $NAMESPACE describe job traffic" send_traffic
  step "report" "${KUBECTL[*]} -n $NAMESPACE get profiles" write_report
  open_step "status" "${KUBECTL[*]} -n $NAMESPACE get pods" show_status
  printf '\n%s\n%-34s %5d s\n' "$(printf '%s\n' "${STEPS[@]}")" "all" "$(seconds_since "$started")"
  more_commands
}

main
