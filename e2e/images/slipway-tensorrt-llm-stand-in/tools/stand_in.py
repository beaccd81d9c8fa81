"""STAND-IN for TensorRT-LLM's tools: parsers of 0.16.0's tables, and files of the right names and sizes.

A checkpoint that holds stand-in.json makes a tool fail: {"tool": "build", "failure": "memory"}.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

TABLES = Path(__file__).parent / "tables"
VERSION = "0.16.0"
TYPES = {"str": str, "int": int, "float": float, "enum": str}
BITS = {"fp8": 8, "int8_sq": 8, "int8_wo": 8, "int4_awq": 4, "int4_wo": 4, "w4a8_awq": 4, "nvfp4": 4}
ALGORITHMS = {"fp8": "FP8", "int8_sq": "W8A8_SQ_PER_CHANNEL", "int8_wo": "W8A16", "int4_awq": "W4A16_AWQ"}
FAILURES = {
    "memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB.",
    "disk": "OSError: [Errno 28] No space left on device: '/slipway/work/checkpoint/rank0.safetensors'",
    "device": "RuntimeError: FP8 is not supported on pre SM89 GPUs",
    "weights": "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
}


def arguments(tool, version):
    """Reads the command line with the parser of a version's table."""
    parser = argparse.ArgumentParser(prog=tool, allow_abbrev=True)
    table = json.loads((TABLES / f"{tool}_flags.json").read_text())[version]
    for name, option in table.items():
        names = [name, *option.get("aliases", [])]
        default = argparse.SUPPRESS if option.get("argparse_default") == "SUPPRESS" else option.get("default")
        if option["type"] == "flag":
            parser.add_argument(*names, action="store_true", default=default or False)
        else:
            extra = {"nargs": option["nargs"]} if option.get("nargs") else {}
            parser.add_argument(
                *names, type=TYPES[option["type"]], choices=option.get("choices"), default=default, **extra
            )
    return parser.parse_args()


def order(folder):
    """What a checkpoint asks its tools to do wrong."""
    path = Path(folder) / "stand-in.json"
    return json.loads(path.read_text()) if path.exists() else {}


def fail_if_ordered(tool, ordered):
    """Fails as upstream does: a line among others, and an exit code."""
    if ordered.get("tool") != tool or ordered["failure"] not in {*FAILURES, "killed"}:
        return
    print(f"[TensorRT-LLM] TensorRT-LLM version: {VERSION} (stand-in)")
    if ordered["failure"] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    print("Traceback (most recent call last):", file=sys.stderr)
    sys.exit(FAILURES[ordered["failure"]])


def write_checkpoint(options, quantization, bits):
    """Writes config.json and one file a rank, as large as the weights would be."""
    model = json.loads((Path(options.model_dir) / "config.json").read_text())
    ranks = options.tp_size * options.pp_size
    hidden, inner = model["hidden_size"], model["intermediate_size"]
    linear = model["num_hidden_layers"] * (4 * hidden * hidden + 3 * hidden * inner)
    n_bytes = (linear * bits // 8 + 4 * model["vocab_size"] * hidden) // ranks
    config = {
        "architecture": model["architectures"][0],
        "dtype": options.dtype,
        "num_hidden_layers": model["num_hidden_layers"],
        "num_attention_heads": model["num_attention_heads"],
        "hidden_size": hidden,
        "vocab_size": model["vocab_size"],
        "mapping": {"world_size": ranks, "tp_size": options.tp_size, "pp_size": options.pp_size},
        "quantization": quantization,
        "stand_in": {**order(options.model_dir), "bytes": n_bytes},
    }
    out = Path(options.output_dir)
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(config))
    for rank in range(ranks):
        (out / f"rank{rank}.safetensors").write_bytes(bytes(n_bytes))


def convert():
    """convert_checkpoint.py of Llama."""
    options = arguments("convert", "0.15.0")
    fail_if_ordered("convert", order(options.model_dir))
    algorithm, bits = None, 16
    if options.use_weight_only:
        algorithm, bits = ("W4A16", 4) if options.weight_only_precision == "int4" else ("W8A16", 8)
    cache = "INT8" if options.int8_kv_cache else None
    write_checkpoint(options, {"quant_algo": algorithm, "kv_cache_quant_algo": cache}, bits)


def quantize():
    """quantize.py."""
    options = arguments("quantize", VERSION)
    fail_if_ordered("quantize", order(options.model_dir))
    texts = [json.loads(line)["text"] for line in (Path(options.calib_dataset) / "train.jsonl").read_text().splitlines()]
    print(f"calibrating with {min(len(texts), options.calib_size)} texts (stand-in)")
    cache = options.kv_cache_dtype.upper() if options.kv_cache_dtype else None
    quantization = {"quant_algo": ALGORITHMS.get(options.qformat), "kv_cache_quant_algo": cache}
    write_checkpoint(options, quantization, BITS.get(options.qformat, 16))


def build():
    """trtllm-build."""
    options = arguments("build", VERSION)
    pretrained = json.loads((Path(options.checkpoint_dir) / "config.json").read_text())
    ordered = pretrained.pop("stand_in")
    fail_if_ordered("build", ordered)
    plugins = {"use_paged_context_fmha": options.use_paged_context_fmha == "enable", "gemm_plugin": options.gemm_plugin}
    limits = ("max_input_len", "max_seq_len", "max_batch_size", "max_num_tokens", "max_beam_width")
    config = {
        "version": "0.17.0" if ordered.get("failure") == "version" else VERSION,
        "pretrained_config": pretrained,
        "build_config": {**{name: getattr(options, name) for name in limits}, "plugin_config": plugins},
    }
    out = Path(options.output_dir)
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(config))
    ranks = pretrained["mapping"]["world_size"] - (ordered.get("failure") == "rank")
    for rank in range(ranks):
        (out / f"rank{rank}.engine").write_bytes(bytes(ordered["bytes"]))
    Path(options.output_timing_cache).write_bytes(b"stand-in")
