#!/usr/bin/env python3
"""Writes an adapter of LoRA with random weights for every attention, as PEFT's save_pretrained() does.

It needs Python alone: weights are BF16, the upper half of a float of 32 bits, in the format of safetensors
(github.com/huggingface/safetensors: the header's length in eight bytes, the header in JSON, the data).

    adapter.py --config FILE --out FOLDER
"""
import argparse
import json
import random
import struct
from pathlib import Path

RANK = 8
ALPHA = 2 * RANK
DEVIATION = 0.02
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj"]
SEED = 1


def sizes(shape: dict) -> dict[str, tuple[int, int]]:
    """What each product of an attention reads and writes, by the checkpoint's config.json."""
    hidden, heads = shape["hidden_size"], shape["num_attention_heads"]
    width = shape.get("head_dim") or hidden // heads
    queries, keys = width * heads, width * shape["num_key_value_heads"]
    return dict(zip(TARGETS, [(hidden, queries), (hidden, keys), (hidden, keys), (queries, hidden)]))


def tensors(shape: dict) -> dict[str, tuple[int, int]]:
    """Names and shapes of an adapter's tensors."""
    found = {}
    for layer in range(shape["num_hidden_layers"]):
        for target, (read, written) in sizes(shape).items():
            name = f"base_model.model.model.layers.{layer}.self_attn.{target}"
            found |= {f"{name}.lora_A.weight": (RANK, read), f"{name}.lora_B.weight": (written, RANK)}
    return found


def random_bf16(count: int, source: random.Random) -> bytes:
    """Normal values in BF16, cut off, little-endian."""
    values = struct.pack(f"<{count}f", *(source.gauss(0, DEVIATION) for _ in range(count)))
    return b"".join(values[at + 2:at + 4] for at in range(0, len(values), 4))


def write_adapter(config: Path, folder: Path) -> None:
    """Writes the adapter of a checkpoint with this config.json: always the same one."""
    source, header, data = random.Random(SEED), {}, b""
    for name, size in tensors(json.loads(config.read_text())).items():
        values = random_bf16(size[0] * size[1], source)
        header[name] = {"dtype": "BF16", "shape": size, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + data)
    (folder / "adapter_config.json").write_text(json.dumps({
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": "model", "r": RANK,
        "lora_alpha": ALPHA, "lora_dropout": 0.0, "bias": "none", "target_modules": TARGETS}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True, help="config.json of the checkpoint")
    parser.add_argument("--out", type=Path, required=True, help="the adapter's folder")
    asked = parser.parse_args()
    write_adapter(asked.config, asked.out)


if __name__ == "__main__":
    main()
