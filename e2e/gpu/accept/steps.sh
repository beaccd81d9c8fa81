# shellcheck shell=bash disable=SC2154 # accept.sh and options.sh set `here` and what is asked for
# The steps of the acceptance kit. Sourced by accept.sh.

# run_step NAME: unless it has ended well before. Its output goes to the terminal and to a log.
run_step() {
  local name=$1 log=$OUTPUT/logs/$1.log record=$OUTPUT/steps/$1.json started=$SECONDS status=0 pid
  if [[ -n $ONLY && $ONLY != *,$name,* ]]; then
    return 0
  fi
  if [[ -z $ONLY && -e $record ]] && grep --quiet '"status": "ok\|"status": "skipped' "$record"; then
    printf '==> %s: done before\n' "$name"
    return 0
  fi
  printf '==> %s\n' "$name"
  rm -f "$OUTPUT/steps/$name.skipped"
  # In the background, for a function called in a condition would go on after its first failure.
  { "step_$name" 2>&1 </dev/null | tee "$log"; } &
  pid=$!
  wait "$pid" || status=$?
  record_step "$name" "$status" $((SECONDS - started)) >"$record"
  printf '    %s: %s, %d s\n' "$name" "$(sed -n 's/.*"status": "\([a-z]*\)".*/\1/p' "$record")" $((SECONDS - started))
  ((status == 0)) || give_up "$name" "$log"
}

# What failed holds no GPU that the next step needs.
give_up() {
  FAILED+=("$1")
  case $1 in
    lab_* | tp2) put_away "$1" >>"$2" 2>&1 || true ;;
  esac
}

record_step() {
  local outcome=ok why=''
  [[ $2 == 0 ]] || outcome=failed why=$(tail -n 3 "$OUTPUT/logs/$1.log" | tr '\n\t' '  ' | tr -cd '[:print:]' | tr -d '"\\' | cut -c1-400)
  [[ ! -e $OUTPUT/steps/$1.skipped ]] || outcome=skipped why=$(cat "$OUTPUT/steps/$1.skipped")
  printf '{"name": "%s", "status": "%s", "seconds": %d, "why": "%s", "ended": "%s"}\n' \
    "$1" "$outcome" "$3" "$why" "$(date --utc +%Y-%m-%dT%H:%M:%SZ)"
}

# skip STEP WHY: it cannot be done here, and that is no failure.
skip() {
  printf '%s\n' "$2"
  printf '%s' "$2" >"$OUTPUT/steps/$1.skipped"
}

step_tools() {
  local tool
  [[ -n $KUBECTL ]] || { printf 'kubectl is missing: install it, or name it with KUBECTL\n' && return 1; }
  [[ -n $SLIPWAY ]] || { printf 'kubectl-slipway is missing: build it (cargo build -p kubectl-slipway), or name it with SLIPWAY\n' && return 1; }
  for tool in python3 curl sed; do
    command -v "$tool" >/dev/null || { printf '%s is missing: install it\n' "$tool" && return 1; }
  done
  run_kubectl version --output json >"$OUTPUT/seen/kubernetes.json" ||
    { printf 'the cluster of %s does not answer\n' "$KUBECONFIG_FILE" && return 1; }
  "$SLIPWAY" --version | tee "$OUTPUT/seen/plugin.txt"
  run_kubectl get crd agentdeployments.slipway.dev --output name ||
    { printf 'Slipway is not installed there: README.md, "On your cluster"\n' && return 1; }
  run_kubectl get deployments --all-namespaces --selector app.kubernetes.io/name=slipway-operator \
    --output 'jsonpath={range .items[*]}{.spec.template.spec.containers[0].image} ready: {.status.readyReplicas}{"\n"}{end}' |
    tee "$OUTPUT/seen/operator.txt"
  grep --quiet 'ready: [1-9]' "$OUTPUT/seen/operator.txt" || { printf 'no operator is ready\n' && return 1; }
}

step_gpus() {
  [[ -z $STAND_INS ]] || pretend_gpus
  run_kubectl get nodes --output json >"$OUTPUT/seen/nodes.json"
  python3 - "$OUTPUT/seen/nodes.json" "$PRODUCT" <<'PYTHON' | tee "$OUTPUT/seen/gpus.txt"
import json, sys
nodes = json.load(open(sys.argv[1]))["items"]
for node in nodes:
    labels, status = node["metadata"]["labels"], node["status"]
    product, gpus = labels.get("nvidia.com/gpu.product"), int(status["allocatable"].get("nvidia.com/gpu", "0"))
    if product and gpus and sys.argv[2] in ("", product):
        driver = labels.get("nvidia.com/cuda.driver-version.full", "unknown")
        print(product, gpus, node["metadata"]["name"], f"driver {driver}", labels.get("nvidia.com/gpu.sharing-strategy", "none"))
PYTHON
  [[ -s $OUTPUT/seen/gpus.txt ]] ||
    { printf 'no node has nvidia.com/gpu and the label nvidia.com/gpu.product%s: install the GPU operator, or its device plugin with GPU feature discovery\n' "${PRODUCT:+ $PRODUCT}" && return 1; }
}

# What later steps need to know of the GPUs.
gpu_product() { cut -d ' ' -f 1 "$OUTPUT/seen/gpus.txt" | head -n 1; }
gpus_of_a_node() { cut -d ' ' -f 2 "$OUTPUT/seen/gpus.txt" | sort -n | tail -n 1; }

step_workload() {
  local folder=$OUTPUT/workload
  make_namespace
  python3 "$here/accept/workload.py" "$folder" ${STAND_INS:+--stand-ins}
  in_namespace create configmap acceptance --from-file "$folder" --dry-run=client --output yaml |
    in_namespace apply --server-side --filename -
  if [[ -n $STAND_INS ]]; then
    in_namespace apply --filename "$REPOSITORY/e2e/manifests/demo/servers.yaml"
    in_namespace rollout status deployment/models --timeout 2m
  elif [[ $MODEL == hf://* ]]; then
    [[ -n ${HF_TOKEN:-} ]] || { printf 'set HF_TOKEN to a token that may read %s\n' "$MODEL" && return 1; }
    # The token stands in no argument, which other users of this machine could read.
    printf '{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hugging-face"}, "stringData": {"token": "%s"}}' "$HF_TOKEN" |
      in_namespace apply --filename -
  fi
}

# The image that builds and serves: what it has, and what of that Slipway does not know.
step_probe() {
  local image=${IMAGE:-} product gpu=', "limits": {"nvidia.com/gpu": "1"}'
  product=$(gpu_product)
  PRODUCT=$product
  [[ -z $STAND_INS ]] || gpu=''
  [[ -n $image ]] || image=$(image_of_version)
  printf '%s\n' "$image" >"$OUTPUT/seen/image.txt"
  in_namespace create configmap probe --from-file "$here/accept/probe.sh" --dry-run=client --output yaml |
    in_namespace apply --filename -
  in_namespace delete pod probe --ignore-not-found --wait
  probe_pod "$image" "$product" "$gpu" | in_namespace apply --filename -
  in_namespace wait pod/probe --for='jsonpath={.status.phase}=Succeeded' --timeout=45m ||
    { in_namespace describe pod probe | tail -n 20 && return 1; }
  in_namespace logs probe >"$OUTPUT/seen/probe.txt"
  in_namespace get pod probe --output 'jsonpath={.status.containerStatuses[0].imageID}' >"$OUTPUT/seen/image-id.txt"
  in_namespace delete pod probe --wait=false
  sed -n '/^== versions/,/^== paths/p' "$OUTPUT/seen/probe.txt"
  python3 "$here/accept/differences.py" tools "$OUTPUT/seen/probe.txt" \
    --tables "$REPOSITORY/operator/backends/tests/data" --version "$VERSION" | tee "$OUTPUT/seen/tools.differences"
}

probe_pod() {
  cat <<JSON
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": {
  "restartPolicy": "Never", "automountServiceAccountToken": false, "nodeSelector": {"nvidia.com/gpu.product": "$2"},
  "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
  "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
  "containers": [{"name": "probe", "image": "$1", "imagePullPolicy": "IfNotPresent", "command": ["sh", "/probe/probe.sh"],
    "env": [{"name": "HOME", "value": "/tmp"}],
    "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}$3},
    "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
    "volumeMounts": [{"name": "probe", "mountPath": "/probe"}]}],
  "volumes": [{"name": "probe", "configMap": {"name": "probe"}}]}}
JSON
}

# The Triton image that the operator takes for a version of TensorRT-LLM: the newest that carries it. A test of
# operator/backends holds this table against the operator's.
image_of_version() {
  local release
  case $VERSION in
    0.15.0) release=24.11 ;;
    0.16.0) release=24.12 ;;
    0.17.0) release=25.01 ;;
    0.17.0.post1) release=25.02 ;;
    0.18.0) release=25.03 ;;
    0.18.2) release=25.04 ;;
    0.19.0) release=25.05 ;;
    0.20.0) release=25.07 ;;
    0.21.0) release=25.08 ;;
    1.0.0) release=25.10 ;;
    1.0.3) release=25.11 ;;
    1.1.0) release=26.02 ;;
    1.2.0) release=26.03 ;;
    1.2.1) release=26.07 ;;
    *) printf 'no image is known for %s: name one with --image\n' "$VERSION" >&2 && return 1 ;;
  esac
  printf 'nvcr.io/nvidia/tritonserver:%s-trtllm-python-py3\n' "$release"
}

# FP8 is computed from SM89 on: the check of a manifest says so before anything is built.
settle_precisions() {
  PRODUCT=$(gpu_product)
  rm -f "$OUTPUT/seen/no-fp8"
  render precisions | "$SLIPWAY" check --filename - >"$OUTPUT/seen/check.txt" 2>&1 && return
  grep --quiet 'FP8 engines do not run' "$OUTPUT/seen/check.txt" || { cat "$OUTPUT/seen/check.txt" && return 1; }
  printf 'FP8 is left out: %s does not compute it\n' "$PRODUCT"
  touch "$OUTPUT/seen/no-fp8"
}

# measured NAME: an agent is built, scored, measured and served; then it is put away.
measured() {
  settle_precisions
  serve "$1" 4h
  see "$1"
  put_away "$1"
}

step_precisions() {
  settle_precisions
  serve precisions 6h
  see precisions
}

step_lab_react() { measured lab_react; }
step_lab_int8() { measured lab_int8; }

# The stand-ins have no mpirun: there an engine of two ranks is built, and not served.
step_tp2() {
  local gpus
  gpus=$(gpus_of_a_node)
  ((gpus >= 2)) || { skip tp2 "no node has two GPUs" && return; }
  settle_precisions
  [[ -n $STAND_INS ]] || { measured tp2 && return; }
  check_manifest tp2
  in_namespace apply --filename "$OUTPUT/manifests/tp2.yaml"
  in_namespace wait agd/tp2 --for='jsonpath={.status.engines[0].name}' --timeout=5m
  in_namespace wait "engine/$(in_namespace get agd tp2 --output 'jsonpath={.status.engines[0].name}')" \
    --for=condition=Ready --timeout=10m
  see tp2
  put_away tp2
}

# Both revisions need a GPU, and users.
step_rollout() {
  local gpus
  gpus=$(gpus_of_a_node)
  ((gpus >= 2)) || { skip rollout "no node has two GPUs, and both revisions need one" && return; }
  settle_precisions
  in_namespace get agd precisions --output name ||
    { printf 'the agent of the step precisions is not there: --only precisions,rollout\n' && return 1; }
  rm -f "$OUTPUT/stop-users"
  with_services roll_out
  see precisions
}

# What the sidecar's container asks for, unlike what it has: a repeated step needs another revision, too.
other_share() {
  local now
  now=$(in_namespace get agd precisions --output 'jsonpath={.spec.serving.agentResources.requests.cpu}')
  [[ $now != 110m ]] && printf '110m\n' || printf '120m\n'
}

# An equal revision is promoted: the sidecar's container asks for a little more or less of the processor.
roll_out() {
  local before users share
  before=$(rollout_of stable)
  share=$(other_share)
  python3 "$here/accept/users.py" --services "$SERVICES" --agent precisions --stop "$OUTPUT/stop-users" \
    --output "$OUTPUT/seen/users.json" &
  users=$!
  sleep "${ACCEPT_PAUSE:-30}"
  sed "s|^  serving:|  serving:\\n    agentResources: {requests: {cpu: $share}}|" "$OUTPUT/manifests/precisions.yaml" |
    in_namespace apply --filename - || return 1
  wait_for_promotion "$before" || { touch "$OUTPUT/stop-users" && wait "$users"; return 1; }
  touch "$OUTPUT/stop-users"
  wait "$users"
  ! grep --quiet '"outcome": "\(failed\|status\)' "$OUTPUT/seen/users.json" ||
    { printf 'requests were lost: %s\n' "$OUTPUT/seen/users.json" && return 1; }
}

rollout_of() { in_namespace get agd precisions --output "jsonpath={.status.rollout.$1}"; }

wait_for_promotion() {
  local attempt
  for attempt in {1..720}; do
    sleep 10
    if [[ $(rollout_of stable) != "$1" ]]; then
      printf 'promoted after %d s\n' $((attempt * 10)) | tee "$OUTPUT/seen/rollout.txt"
      return 0
    fi
    ((attempt % 6 != 0)) || printf '%s %s\n' "$(rollout_of weight)" "$(rollout_of message)"
    [[ -z $(rollout_of 'rejected[*].reason') ]] || { printf 'rolled back: %s\n' "$(rollout_of 'rejected[*].reason')" && return 1; }
  done
  printf 'no verdict within two hours: %s\n' "$(rollout_of message)"
  return 1
}

write_report() {
  python3 "$here/accept/report.py" "$OUTPUT" --differences "$here/accept/differences.py" \
    ${STAND_INS:+--stand-ins} --commit "$(git -C "$REPOSITORY" rev-parse HEAD 2>/dev/null || cat "$REPOSITORY/COMMIT" 2>/dev/null || printf unknown)" \
    >"$OUTPUT/report.md"
  printf 'The report: %s\n' "$OUTPUT/report.md"
}
