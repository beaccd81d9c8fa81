#!/usr/bin/env python3
"""What vLLM takes of a GPU's memory for a model of a given shape, and how fast it decodes: one JSON line a case.

The weights are vLLM's own random ones (`load_format=dummy`), for memory and speed depend on the shape alone. Every
case is a process of its own, so that none inherits another's memory.

    sizes.py --config FILE... [--seconds N]     all cases, until so many seconds have passed
    sizes.py --config FILE... --graphs TOKENS...    cases with CUDA graphs alone, by tokens of an iteration; no speed

Without CUDA graphs a start is short; memory of weights, activations and KV blocks is profiled the same way. Speed is
measured with graphs. Activations are those of a layer, so `--layers N` may take a shape's first layers for all.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PRECISIONS = ("bf16", "fp8")
LENGTHS = (2048, 8192, 32768)
PROMPT_TOKENS, NEW_TOKENS = 512, 128
IN_FLIGHT = (1, 4, 16, 64)
MAX_NUM_SEQS, MEMORY_UTILIZATION = 64, 0.9

# How vLLM says what it takes (vllm-project/vllm, vllm/v1/worker/gpu_worker.py and vllm/v1/core/kv_cache_utils.py).
SAID = {
    "weightsGib": r"Model loading took ([\d.]+) GiB",
    "activationsGib": r"([\d.]+) ?GiB for peak activation|peak activation[^\d]*([\d.]+) ?GiB",
    "nonTorchGib": r"([\d.]+) ?GiB for non-torch|non-torch[^\d]*([\d.]+) ?GiB",
    "graphsGib": r"Graph capturing finished in .*took (-?[\d.]+) GiB|([\d.]+) ?GiB for CUDAGraph",
    "kvCacheGib": r"Available KV cache memory: ([\d.]+) GiB",
    "kvCacheTokens": r"GPU KV cache size: ([\d,]+) tokens",
}


def cases(configs, graphs, layers, precisions):
    """Of every shape. The first precision of all shapes comes first: time may end before the second."""
    for precision in precisions:
        for config in configs:
            case = {"config": config, "layers": layers, "precision": precision, "maxNumBatchedTokens": 8192}
            for tokens in graphs:
                yield case | {"maxModelLen": min(LENGTHS[1], tokens), "maxNumBatchedTokens": tokens, "graphs": True}
            if graphs:
                continue
            for length in LENGTHS:
                yield case | {"maxModelLen": length, "graphs": False}
            yield case | {"maxModelLen": LENGTHS[1], "graphs": True, "speed": True}


def decode_seconds(engine, in_flight):
    from vllm import SamplingParams

    def generate(new_tokens):
        sampling = SamplingParams(max_tokens=new_tokens, ignore_eos=True, detokenize=False, temperature=0.0)
        prompts = [{"prompt_token_ids": [7 + (row * 131 + at) % 1000 for at in range(PROMPT_TOKENS)]}
                   for row in range(in_flight)]
        begun = time.monotonic()
        engine.generate(prompts, sampling, use_tqdm=False)
        return time.monotonic() - begun

    generate(8)
    # The difference is decoding alone.
    return [generate(NEW_TOKENS + 8) - generate(8) for _ in range(3)]


def measure(case):
    import torch
    import vllm
    from vllm import LLM

    with tempfile.TemporaryDirectory() as folder:
        shape = json.loads(Path(case["config"]).read_text())
        if case["layers"]:
            shape["num_hidden_layers"] = case["layers"]
        (Path(folder) / "config.json").write_text(json.dumps(shape))
        engine = LLM(model=folder, skip_tokenizer_init=True, load_format="dummy", dtype="bfloat16",
                     quantization="fp8" if case["precision"] == "fp8" else None,
                     max_model_len=case["maxModelLen"], max_num_seqs=MAX_NUM_SEQS,
                     max_num_batched_tokens=case["maxNumBatchedTokens"],
                     gpu_memory_utilization=MEMORY_UTILIZATION, enable_prefix_caching=False, enforce_eager=not case["graphs"])
        free, total = torch.cuda.mem_get_info()
        speeds = {}
        if case.get("speed"):
            speeds = {str(count): decode_seconds(engine, count) for count in IN_FLIGHT}
        print("RESULT " + json.dumps({
            "vllm": vllm.__version__, "gpu": torch.cuda.get_device_name(), "shape": Path(case["config"]).stem,
            "layers": shape["num_hidden_layers"], "maxNumSeqs": MAX_NUM_SEQS,
            "gpuMemoryUtilization": MEMORY_UTILIZATION, "usedBytes": total - free, "totalBytes": total,
            "decodeSeconds": speeds}))


def said(log):
    """The last figure of each kind."""
    found = {}
    for name, pattern in SAID.items():
        matches = re.findall(pattern, log)
        if matches:
            last = matches[-1]
            text = last if isinstance(last, str) else next(group for group in last if group)
            found[name] = float(text.replace(",", ""))
    return found


def run_all(seconds, *asked):
    begun = time.monotonic()
    logs = Path(os.environ.get("OUT", tempfile.gettempdir()))
    for number, case in enumerate(cases(*asked)):
        left = seconds - (time.monotonic() - begun)
        if left < 30:
            print(f"left out for want of time: {json.dumps(case)}", file=sys.stderr)
            continue
        command = [sys.executable, __file__, "--case", json.dumps(case)]
        environment = {**os.environ, "VLLM_LOGGING_LEVEL": "DEBUG", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
        at = time.monotonic()
        log = logs / f"sizes-{number}.log"
        with log.open("w") as file:
            try:
                subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, env=environment, timeout=left, check=False)
            except subprocess.TimeoutExpired:
                pass
        text = log.read_text()
        result = re.findall(r"^RESULT (.*)$", text, re.M)
        print(json.dumps({**case, "seconds": round(time.monotonic() - at, 1), **said(text),
                          **(json.loads(result[-1]) if result else {"failed": text[-400:]})}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", nargs="+", default=[])
    parser.add_argument("--graphs", type=int, nargs="+", default=[], metavar="TOKENS")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--precision", nargs="+", default=PRECISIONS, choices=PRECISIONS)
    parser.add_argument("--seconds", type=float, default=900)
    # What the program calls itself with.
    parser.add_argument("--case", type=json.loads, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if not asked.config and not asked.case:
        parser.error("name a shape with --config")
    if asked.case:
        measure(asked.case)
    else:
        run_all(asked.seconds, asked.config, asked.graphs, asked.layers, asked.precision)


if __name__ == "__main__":
    main()
