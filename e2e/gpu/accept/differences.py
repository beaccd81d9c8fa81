#!/usr/bin/env python3
"""Holds what an image and its servers have against what Slipway's stand-ins have; prints one difference a line.

    differences.py tools PROBE_OUTPUT --tables FOLDER --version 0.16.0
    differences.py metrics METRICS_TEXT
    differences.py files LISTING

The tables are those that Slipway's own command lines are checked by (operator/backends/tests/data).
"""

import argparse
import json
import re
from pathlib import Path

TOOLS = ("build", "convert", "quantize")

METRICS = {
    "nv_gpu_utilization": "the GPU's utilization",
    "nv_gpu_memory_used_bytes": "the GPU's memory",
    "nv_gpu_power_usage": "the GPU's power",
    "nv_inference_request_success": "requests",
    "nv_inference_pending_request_count": "requests that wait",
    "nv_trt_llm_request_metrics": "requests of the engine",
    "nv_trt_llm_kv_cache_block_metrics": "blocks of the KV cache",
    "nv_trt_llm_inflight_batcher_metrics": "the batch in flight",
}
"""What Triton and its TensorRT-LLM backend say of themselves, as upstream documents it."""

FILES = {
    r"model_repository/tensorrt_llm/config\.pbtxt$": "the model's configuration",
    r"engine/config\.json$": "the engine's configuration",
    r"engine/rank0\.engine$": "the first rank's engine",
    r"tokenizer/tokenizer\.json$": "the tokenizer",
}
"""What an artifact holds, as pods see it below /slipway/engine."""


def sections(text: str) -> dict[str, str]:
    """Returns the parts of what probe.sh printed."""
    parts = re.split(r"^== (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def options(help_text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])(--[A-Za-z][\w-]*)", help_text))


def table_of(folder: Path, tool: str, version: str) -> tuple[str, dict]:
    """Returns the table of a version, or of the latest before it."""
    tables = json.loads((folder / f"{tool}_flags.json").read_text())
    key = lambda text: [int(part) for part in re.findall(r"\d+", text)][:3]  # noqa: E731
    earlier = [known for known in tables if key(known) <= key(version)] or [min(tables, key=key)]
    chosen = max(earlier, key=key)
    return chosen, tables[chosen]


def of_tool(tool: str, help_text: str, folder: Path, version: str) -> list[str]:
    chosen, table = table_of(folder, tool, version)
    has = options(help_text)
    if len(has) < 3:
        last = (help_text.strip().splitlines() or ["nothing"])[-1]
        return [f"{tool}: its --help lists no options; it says: {last[:200]}"]
    known = {name for name in table} | {alias for option in table.values() for alias in option.get("aliases", [])}
    known = {name for name in known if name.startswith("--")}
    gone = sorted(known - has)
    new = sorted(has - known - {"--help"})
    said = [f"{tool}: {name} of the table of {chosen} is unknown to the image" for name in gone]
    return said + [f"{tool}: {name} of the image is not in the table of {chosen}" for name in new]


def of_tools(text: str, folder: Path, version: str) -> list[str]:
    parts = sections(text)
    said = [line for line in parts.get("paths", "").splitlines() if line.endswith(": missing")]
    said = [f"path {line}" for line in said]
    said += [f"program {line}" for line in parts.get("versions", "").splitlines() if line.endswith(": missing")]
    found = re.search(r"^tensorrt_llm (\S+)", parts.get("versions", ""), re.MULTILINE)
    if not found:
        said.append("versions: tensorrt_llm cannot be imported")
    elif found.group(1) != version:
        said.append(f"versions: tensorrt_llm is {found.group(1)}, not {version}")
    for tool in TOOLS:
        said += of_tool(tool, parts.get(f"{tool}-help", ""), folder, version)
    if "end" not in parts:
        said.append("the probe broke off: see its output")
    return said


def of_metrics(text: str) -> list[str]:
    names = set(re.findall(r"^([a-zA-Z_:][\w:]*)", text, re.MULTILINE))
    return [f"metric {name} is absent: nothing is known of {what}" for name, what in METRICS.items() if name not in names]


def of_files(text: str) -> list[str]:
    lines = text.splitlines()
    return [
        f"file {pattern.rstrip('$')} is absent: {what} has another name or place"
        for pattern, what in FILES.items()
        if not any(re.search(pattern, line) for line in lines)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tools", "metrics", "files"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--version", default="0.16.0")
    arguments = parser.parse_args()
    text = arguments.file.read_text(errors="replace")
    if arguments.what == "tools":
        if arguments.tables is None:
            parser.error("--tables names the folder of the tables")
        said = of_tools(text, arguments.tables, arguments.version)
    else:
        said = of_metrics(text) if arguments.what == "metrics" else of_files(text)
    print("\n".join(said))


if __name__ == "__main__":
    main()
