#!/usr/bin/env bash
# Tries on this machine, without a cluster, all that pods behind Triton need of it: libraries, Python's packages, the
# builder's products on the GPU, and a Triton that serves one of its engines and says what the GPU does.
#
# It needs the parts of Triton (SLIPWAY_GPU_SERVERS=triton parts.sh) and begins with the step of node.sh that both need.
#
#   SLIPWAY_GPU_PRECISIONS=LIST   of FP16, INT8, FP8 (default: "FP16, INT8, FP8")
#   SLIPWAY_GPU_OPTIONS=LIST      more options of the builder, such as 'weightOnly: "1"' or 'cudaGraphs: "0"'
set -euo pipefail
shopt -s inherit_errexit

# shellcheck source=lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=lib/node.sh
source "$GPU_SCRIPTS/lib/node.sh"
for part in environment device; do
  # shellcheck source=/dev/null
  source "$GPU_SCRIPTS/lib/$part.sh"
done

readonly PROBE=$NODE/probe PORTS=(--http-port 18000 --grpc-port 18001 --metrics-port 18002)
IFS=', ' read -ra PRECISIONS <<<"${SLIPWAY_GPU_PRECISIONS:-FP16, INT8, FP8}"
readonly PRECISIONS

# The root file systems of the two images, and the paths at which pods see them.
unpack_images() {
  local name layer
  rm -rf "$PROBE" && mkdir -p "$PROBE"
  for name in slipway-triton-gpu slipway-torch-builder; do
    mkdir -p "$PROBE/$name/archive"
    tar --extract --file "$PARTS/images/$name.tar" --directory "$PROBE/$name/archive"
    for layer in $(python3 -c 'import json, sys; print(*json.load(open(sys.argv[1]))[0]["Layers"])' \
      "$PROBE/$name/archive/manifest.json"); do
      tar --extract --file "$PROBE/$name/archive/$layer" --directory "$PROBE/$name"
    done
  done
  ls "$PROBE/slipway-triton-gpu/opt/tritonserver"
}

# What the stub of Triton's Python backend and NVML's callers ask the linker for.
show_libraries() {
  local name cache missing=()
  cache=$(ldconfig -p)
  for name in libpython3.12.so.1.0 libnvidia-ml.so.1 libcuda.so.1 libstdc++.so.6 libz.so.1; do
    grep --max-count 1 "$name " <<<"$cache" || missing+=("$name")
  done
  printf 'not in the linker cache: %s\n' "${missing[*]:-nothing}"
  in_environment sh -c 'export LD_LIBRARY_PATH=/opt/tritonserver/lib
    ! ldd /opt/tritonserver/bin/tritonserver /opt/tritonserver/backends/python/*_stub \
      /opt/tritonserver/backends/python/*.so | grep "not found"'
}

# in_environment COMMAND...: with what the images have at its paths, their programs, and the GPUs of a pod that has all.
in_environment() {
  # shellcheck disable=SC2016 # the inner shell expands it
  unshare --mount sh -c '
    mkdir -p /opt/tritonserver /opt/slipway/builder
    mount --bind "$1/slipway-triton-gpu/opt/tritonserver" /opt/tritonserver
    mount --bind "$1/slipway-torch-builder/opt/slipway/builder" /opt/slipway/builder
    export PATH="$1/slipway-triton-gpu/opt/slipway/bin:$1/slipway-torch-builder/opt/slipway/bin:$PATH"
    export NVIDIA_VISIBLE_DEVICES="${NVIDIA_VISIBLE_DEVICES:-all}"
    shift && exec "$@"' sh "$PROBE" "$@"
}

# Builds, answers the demo's first questions, and times single steps: with each precision, and on the GPU.
build_engines() {
  local precision root
  for precision in "${PRECISIONS[@]}"; do
    root=$PROBE/$precision
    mkdir -p "$root/task"
    ln -sfn "$REPOSITORY/e2e/model/checkpoints/react-256" "$root/checkpoint"
    python3 -c 'import json, re, sys
given = dict(re.findall(r"(\w+): \"([^\"]*)\"", sys.argv[2]))
print(json.dumps({"precision": sys.argv[1], "options": {"runtime": "torch", "maxBatchSize": "64"} | given}))' \
      "$precision" "${SLIPWAY_GPU_OPTIONS:-}" >"$root/task/build.json"
    head -n 64 "$REPOSITORY/e2e/manifests/demo/workload/quality.jsonl" >"$root/task/quality.jsonl"
    in_environment builder build --root "$root"
    in_environment builder evaluate --root "$root"
    python3 -c 'import json, sys
expected = [json.loads(line)["expected"] for line in open(sys.argv[1])]
outputs = [json.loads(line)["output"] for line in open(sys.argv[2])]
right = sum(one.strip() == other.strip() for one, other in zip(expected, outputs))
print(sys.argv[3], "exact:", right, "of", len(expected))' \
      "$root/task/quality.jsonl" "$root/output/quality/outputs.jsonl" "$precision"
    # shellcheck disable=SC2016 # the inner shell expands it
    in_environment sh -c '. /opt/slipway/environment/variables && export PYTHONPATH=/opt/slipway && exec "$PYTHON" "$@"' \
      sh "$GPU_SCRIPTS/torch_steps.py" "$root/output/model_repository/agent/1"
  done
}

# One Triton outside a cluster, asked once; then what it says of the GPU, which it samples every two seconds.
serve_engine() {
  local server attempt repository=$PROBE/${PRECISIONS[0]}/output/model_repository
  in_environment tritonserver --model-repository="$repository" --model-control-mode=explicit --load-model=agent \
    --backend-directory=/opt/tritonserver/backends "${PORTS[@]}" >"$PROBE/triton.log" 2>&1 &
  server=$!
  for attempt in {1..120}; do
    ! curl --silent --fail http://localhost:18000/v2/health/ready || break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.5
  done
  printf 'ready after %d s\n' "$((attempt / 2))"
  grep --ignore-case 'dcgm\|cuda\|error\|warn' "$PROBE/triton.log" | head -n 20 || true
  curl --silent --show-error http://localhost:18000/v2/models/agent/generate \
    --data '{"text_input": "Question: What is the area of Rema?\n", "max_tokens": 60, "stop_words": ["\n\n"]}'
  sleep 4
  printf '\n'
  curl --silent http://localhost:18002/metrics >"$PROBE/metrics" || tail -n 30 "$PROBE/triton.log"
  end_tree "$server"
  wait "$server" || true
  grep '^nv_gpu' "$PROBE/metrics"
}

main() {
  local started=$SECONDS
  step "Python" "name a Python that has torch with SLIPWAY_GPU_PYTHON" install_environment
  step "images" "the parts need slipway-triton-gpu: SLIPWAY_GPU_SERVERS=triton" unpack_images
  open_step "GPU" "nvidia-smi must work; name the driver's libraries with SLIPWAY_GPU_DRIVER" run_nvidia_smi
  open_step "libraries" "install what is missing, such as libpython3.12t64" show_libraries
  open_step "engines" "leave the precision out (SLIPWAY_GPU_PRECISIONS), or set SLIPWAY_GPU_OPTIONS" build_engines
  open_step "Triton" "$PROBE/triton.log" serve_engine
  tell_durations "$started"
}

main
