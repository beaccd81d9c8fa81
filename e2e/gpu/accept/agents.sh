# shellcheck shell=bash disable=SC2154 # accept.sh sets `here`
# The manifests, and what is seen of an agent. Sourced by accept.sh.

# In what a stand-in serves: a small model, objectives that two cores meet, and little of everything.
readonly SMALL='
  s|maxSeqLen: [0-9]*|maxSeqLen: 2048|; s|maxInputLen: [0-9]*|maxInputLen: 1024|
  s|max: 500ms|max: 20s|; s|max: 1s}|max: 30s}|; s|max: 10ms|max: 20s|; s|min: "1.5"|min: "20"|
  s|concurrency: .*|concurrency: [4, 8]|; s|maxBatchSize: .*|maxBatchSize: [16]|
  s|requests: {cpu: [^}]*}|requests: {cpu: 200m, memory: 256Mi}|; s|memory: [0-9]*Gi}|memory: 2Gi}|
  s|samples: [0-9]*}|samples: 16}|
  /^    gpu: /d; /name: steps, prompts:/d; s|^    budget: {gpuHours: .*|&\n    driver: AgentRun|'
# The last line is for the lab whose prompts Model Analyzer would send, and whose GPUs must be busy: behind the stand-in
# runs are replayed, and no GPU is there.

# Leaves out the precisions that the GPU does not compute.
readonly WITHOUT_FP8='s|precision: \[FP16, FP8\(.*\)\]|precision: [FP16\1]|'

# render NAME: a manifest with this cluster's model, image, product and data.
render() {
  local file edits
  case $1 in
    lab_react) file=$REPOSITORY/docs/examples/lab-react-fp8.yaml ;;
    lab_int8) file=$REPOSITORY/docs/examples/lab-int8-weight-only.yaml ;;
    *) file=$here/accept/$1.yaml ;;
  esac
  edits="s|@MODEL@|$MODEL|; s|@VERSION@|$VERSION|; s|@PRODUCT@|$PRODUCT|; s|uri: hf://.*|uri: $MODEL|
    s|nvidia.com/gpu.product: [^}]*}|nvidia.com/gpu.product: $PRODUCT}|
    s|configMap: {name: calibration-texts,|configMap: {name: acceptance,|
    s|configMap: {name: react-samples,|configMap: {name: acceptance,|
    s|configMap: {name: react-traffic, key: trace.jsonl}|configMap: {name: acceptance, key: search.jsonl}|
    s|configMap: {name: react-traffic,|configMap: {name: acceptance,|
    s|configMap: {name: lab-traffic,|configMap: {name: acceptance,|"
  # An image has one version, whatever the manifest of a lab names.
  [[ -z ${IMAGE:-} ]] || edits+="
    s|^      version: .*|      version: $VERSION\n      image: $IMAGE|"
  [[ $MODEL == hf://* ]] || edits+="
    /secretRef: {name: hugging-face}/d"
  [[ -z $STAND_INS ]] || edits+="$SMALL"
  [[ -e $OUTPUT/seen/no-fp8 ]] && edits+="
    $WITHOUT_FP8"
  sed "$edits" "$file"
}

check_manifest() {
  render "$1" >"$OUTPUT/manifests/$1.yaml"
  "$SLIPWAY" check --filename "$OUTPUT/manifests/$1.yaml"
}

# What each agent is called in the cluster.
agent_of() {
  case $1 in
    lab_react) printf 'react-lab\n' ;;
    lab_int8) printf 'int8-lab\n' ;;
    *) printf '%s\n' "$1" ;;
  esac
}

dry_run() {
  local name
  [[ -n $SLIPWAY ]] || die "kubectl-slipway is missing: build it, or name it with SLIPWAY"
  OUTPUT=$(mktemp -d)
  mkdir -p "$OUTPUT"/{manifests,seen}
  for name in precisions lab_react lab_int8 tp2; do
    printf '# %s\n' "$name"
    render "$name"
    printf -- '---\n'
    check_manifest "$name" >&2 || die "the manifest of $name would be refused"
  done
  rm -rf "$OUTPUT"
}

# serve NAME LIMIT: from a manifest to an agent that answers; everything that is seen of it stays in a folder.
serve() {
  local name=$1 limit=$2 agent status=0
  agent=$(agent_of "$name")
  check_manifest "$name"
  in_namespace apply --filename "$OUTPUT/manifests/$name.yaml"
  run_slipway wait "$agent" --timeout "$limit" || status=$?
  see "$name"
  ((status == 0)) || { explain_failure "$agent" && return "$status"; }
  run_slipway ask "$agent" "How many bridges are there in region 7?" | tee "$OUTPUT/seen/$name/answer.txt"
  see_server "$name"
}

explain_failure() {
  printf '\n%s does not serve:\n' "$1"
  in_namespace get agd "$1" --output 'jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}'
  in_namespace get events --field-selector "involvedObject.name=$1" | tail -n 10
}

# What the API has of an agent, and its report.
see() {
  local folder=$OUTPUT/seen/$1 agent kind
  agent=$(agent_of "$1")
  mkdir -p "$folder"
  in_namespace get agd "$agent" --output json >"$folder/agent.json"
  for kind in engines profiles; do
    in_namespace get "$kind" --output json >"$folder/$kind.json"
  done
  run_slipway status "$agent" >"$folder/status.txt" || true
  run_slipway report "$agent" --output "$folder/report.html" || true
}

serving_pod() {
  in_namespace get pods --selector "slipway.dev/agent-deployment=$1,app.kubernetes.io/component=serve" --output name |
    head -n 1 | cut -d / -f 2
}

# What the server shows: files, metrics, and its own words about memory. Nothing of it decides whether a step is well.
see_server() {
  local folder=$OUTPUT/seen/$1 pod
  pod=$(serving_pod "$(agent_of "$1")")
  [[ -n $pod ]] || { printf 'no serving pod was found\n' && return 0; }
  in_namespace exec "$pod" --container triton -- find /slipway/engine -type f >"$folder/files.txt" || true
  run_kubectl get --raw "/api/v1/namespaces/$NAMESPACE/pods/$pod:8002/proxy/metrics" >"$folder/metrics.txt" || true
  in_namespace logs "$pod" --container triton >"$folder/server.log" || true
  in_namespace get pod "$pod" --output json >"$folder/pod.json"
}

# Its GPUs are free for the next one.
put_away() {
  local agent attempt
  agent=$(agent_of "$1")
  in_namespace delete agd "$agent" --ignore-not-found --timeout 3m
  for attempt in {1..180}; do
    [[ -n $(in_namespace get pods --selector "slipway.dev/agent-deployment=$agent" --output name) ]] || return 0
    sleep 1
  done
  printf 'pods of %s are still there after %d s\n' "$agent" "$attempt"
  return 1
}
