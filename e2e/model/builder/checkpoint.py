"""Reads a Llama's checkpoint folder: config.json and weights in safetensors, checked before anything is built of them."""

import json
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_DTYPES = {"BF16": np.uint16, "F16": np.float16, "F32": np.float32}
_EXPECTED = {
    "model_type": "llama", "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
}
"""What config.json must say, where it says anything: the graph computes nothing else."""
_REQUIRED = (
    "model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size",
    "max_position_embeddings", "vocab_size", "rms_norm_eps", "eos_token_id",
)


class CheckpointError(Exception):
    """The checkpoint cannot be used; the text names the file and the field."""


@dataclass(frozen=True)
class Config:
    """The part of config.json that the graph is built from, under the names of Hugging Face's `LlamaConfig`."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    max_position_embeddings: int
    vocab_size: int
    rope_theta: float
    rms_norm_eps: float
    tie_word_embeddings: bool
    end_tokens: tuple[int, ...]
    """Tokens at which a text ends; `eos_token_id` is one of them or a list."""


class Checkpoint:
    """Configuration and weights; weights are converted to 32 bits when read."""

    def __init__(self, config: Config, tensors: dict[str, np.ndarray]) -> None:
        self.config = config
        self._tensors = tensors

    def names(self) -> list[str]:
        """Returns the names of all weights, in the order of the files."""
        return list(self._tensors)

    def tensor(self, name: str) -> np.ndarray:
        """Returns a weight.

        Raises `CheckpointError` when the checkpoint lacks it.
        """
        if name not in self._tensors:
            raise CheckpointError(f"the checkpoint has no tensor {name}")
        return as_float32(self._tensors[name])

    def output_embedding(self) -> np.ndarray:
        """Returns the weight that turns the last hidden state into logits.

        Raises `CheckpointError` when the checkpoint lacks it.
        """
        return self.tensor("model.embed_tokens.weight" if self.config.tie_word_embeddings else "lm_head.weight")


def as_float32(tensor: np.ndarray) -> np.ndarray:
    """Widens a weight; unsigned 16-bit integers are the bits of bfloat16, the upper half of a 32-bit number's."""
    if tensor.dtype == np.uint16:
        return (tensor.astype(np.uint32) << 16).view(np.float32)
    return tensor.astype(np.float32)


def read_checkpoint(folder: Path) -> Checkpoint:
    """Reads configuration and all `*.safetensors` of a folder.

    Raises `CheckpointError`.
    """
    config = _read_config(folder / "config.json")
    shards = sorted(folder.glob("*.safetensors"))
    if not shards:
        raise CheckpointError(f"{folder} holds no *.safetensors file")
    if not (folder / "tokenizer.json").is_file():
        raise CheckpointError(f"{folder} holds no tokenizer.json")
    tensors: dict[str, np.ndarray] = {}
    for shard in shards:
        tensors |= read_safetensors(shard)
    return Checkpoint(config, tensors)


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Reads one file of the format https://github.com/huggingface/safetensors describes; bfloat16 as its bits.

    Raises `CheckpointError` when it is cut off or holds a type other than BF16, F16 and F32.
    """
    data = path.read_bytes()
    if len(data) < 8:
        raise CheckpointError(f"{path.name} is cut off: {len(data)} bytes")
    (header_size,) = struct.unpack("<Q", data[:8])
    try:
        header = json.loads(data[8 : 8 + header_size])
    except ValueError as error:
        raise CheckpointError(f"{path.name} has no readable header") from error
    body = memoryview(data)[8 + header_size :]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in _DTYPES:
            raise CheckpointError(
                f"{path.name}: tensor {name} is {entry['dtype']}; only {', '.join(_DTYPES)} are supported"
            )
        start, end = entry["data_offsets"]
        if end > len(body):
            raise CheckpointError(f"{path.name} is cut off within tensor {name}")
        tensors[name] = np.frombuffer(body[start:end], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def _read_config(path: Path) -> Config:
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"config.json cannot be read: {error}") from error
    missing = [name for name in _REQUIRED if name not in values]
    if missing:
        raise CheckpointError(f"config.json lacks {', '.join(missing)}")
    for name, expected in _EXPECTED.items():
        if values.get(name, expected) != expected:
            raise CheckpointError(f"config.json: {name} is {values[name]!r}, this builder takes {expected!r}")
    end = values["eos_token_id"]
    return Config(
        **{name: values[name] for name in _REQUIRED if name not in ("model_type", "eos_token_id")},
        head_dim=values.get("head_dim") or values["hidden_size"] // values["num_attention_heads"],
        rope_theta=_rope_theta(values),
        tie_word_embeddings=values.get("tie_word_embeddings", False),
        end_tokens=tuple(end if isinstance(end, list) else [end]),
    )


def _rope_theta(values: dict) -> float:
    """Returns the base of the rotary frequencies, as transformers 4 (`rope_theta`) or 5 (`rope_parameters`) write."""
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise CheckpointError(f"config.json: rotary positions are of type {kind!r}, this builder takes 'default'")
    return float(values.get("rope_theta", rope.get("rope_theta", 10000.0)))
