#!/bin/sh
# Runs in the image that builds and serves engines, and says what is there: sections that begin with "== NAME".
# Nothing ends it: what is missing is what the reader looks for.

section() { printf '\n== %s\n' "$1"; }
examples=/app/examples
[ -d "$examples" ] || examples=/app/tensorrt_llm/examples
convert=$examples/llama/convert_checkpoint.py
[ -f "$convert" ] || convert=$examples/models/core/llama/convert_checkpoint.py

section versions
python3 --version 2>&1
python3 -c 'import tensorrt_llm; print("tensorrt_llm", tensorrt_llm.__version__)' 2>&1 | tail -n 1
python3 -c 'import tensorrt; print("tensorrt", tensorrt.__version__)' 2>&1 | tail -n 1
python3 -c 'import torch; print("torch", torch.__version__, torch.version.cuda)' 2>&1 | tail -n 1
python3 -c 'import transformers; print("transformers", transformers.__version__)' 2>&1 | tail -n 1
for program in tritonserver mpirun trtllm-build nvidia-smi sh curl; do
  printf '%s: %s\n' "$program" "$(command -v "$program" || echo missing)"
done
cat /opt/tritonserver/TRITON_VERSION 2>/dev/null && echo
cat /etc/os-release 2>/dev/null | grep '^PRETTY_NAME'
section gpus
nvidia-smi --query-gpu=index,name,memory.total,driver_version,compute_cap --format=csv,noheader 2>&1
section paths
for path in "$examples" "$convert" "$examples/quantization/quantize.py" /app/all_models/inflight_batcher_llm \
  /app/scripts/launch_triton_server.py /app/tools/fill_template.py /opt/tritonserver/backends/tensorrtllm; do
  [ -e "$path" ] && printf '%s: there\n' "$path" || printf '%s: missing\n' "$path"
done
section templates
for file in /app/all_models/inflight_batcher_llm/*/config.pbtxt; do
  printf '%s: %s\n' "$file" "$(grep -o '\${[a-z_]*}' "$file" 2>/dev/null | sort -u | tr '\n' ' ')"
done
section backend
ls /opt/tritonserver/backends/tensorrtllm 2>&1
section build-help
trtllm-build --help 2>&1
section convert-help
python3 "$convert" --help 2>&1
section quantize-help
python3 "$examples/quantization/quantize.py" --help 2>&1
section end
