"""A Llama in torch: prefill of one prompt, and one step of a batch, on a key-value cache that is allocated once.

The cache is one tensor [layers, key or value, rows, heads, positions, channels]. A step reads and writes nothing but
tensors of constant shapes on the device, so that it can be captured as a CUDA graph.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch.nn import functional

from .torch_linear import Linear, linear

METADATA = "slipway"
"""Key of the file's header under which `Shape` lies as JSON."""


@dataclass(frozen=True)
class Shape:
    """What a file's weights do not say by themselves."""

    precision: str
    weight_only: bool
    n_heads: int
    n_key_heads: int
    n_channels: int
    context_length: int
    rope_theta: float
    norm_epsilon: float
    end_tokens: tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """Weights of a layer."""

    input_norm: torch.Tensor
    qkv: Linear
    output: Linear
    mlp_norm: torch.Tensor
    gate_up: Linear
    down: Linear


class Network:
    """Weights and cache on a device."""

    def __init__(self, path: Path, device: torch.device, n_rows: int) -> None:
        with safe_open(path, framework="pt", device=str(device)) as file:
            self.shape = Shape(**json.loads(file.metadata()[METADATA]))
            tensors = {name: file.get_tensor(name) for name in file.keys()}
        self._embedding, self._norm = tensors["embedding"], tensors["norm"]
        self._unembedding = tensors["unembedding"]
        self._layers = [self._layer(tensors, index) for index in range(_n_layers(tensors))]
        shape = self.shape
        size = (len(self._layers), 2, n_rows, shape.n_key_heads, shape.context_length, shape.n_channels)
        self._cache = torch.zeros(size, dtype=self._embedding.dtype, device=device)
        self._cos, self._sin = _rotary_tables(shape, device)
        self._rows = torch.arange(n_rows, device=device)
        self._positions = torch.arange(shape.context_length, device=device)

    def prefill(self, row: int, tokens: torch.Tensor) -> torch.Tensor:
        """Fills a row's cache with a prompt [length] and returns the logits [vocabulary] behind it."""
        n_tokens = len(tokens)
        rotary = self._cos[:n_tokens, None], self._sin[:n_tokens, None]

        def attend(index: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            key, value = key.transpose(0, 1), value.transpose(0, 1)
            self._cache[index, 0, row, :, :n_tokens] = key
            self._cache[index, 1, row, :, :n_tokens] = value
            attended = functional.scaled_dot_product_attention(
                query.transpose(0, 1)[None], key[None], value[None], is_causal=True, enable_gqa=True
            )
            return attended[0].transpose(0, 1)

        return self._logits(self._hidden(tokens, rotary, attend)[-1:])[0]

    def step(self, tokens: torch.Tensor, positions: torch.Tensor, length: int) -> torch.Tensor:
        """Appends a token to each of the first rows, all within `length` positions; returns the next tokens [batch]."""
        n_rows = len(tokens)
        rows = self._rows[:n_rows]
        rotary = self._cos[positions][:, None], self._sin[positions][:, None]
        seen = (self._positions[:length] <= positions[:, None])[:, None, None]

        def attend(index: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
            keys, values = self._cache[index, :, :n_rows]
            keys[rows, :, positions] = key
            values[rows, :, positions] = value
            # Heads that share keys are queries of one head: then no key is repeated in memory.
            grouped = query.view(n_rows, self.shape.n_key_heads, -1, self.shape.n_channels)
            return functional.scaled_dot_product_attention(
                grouped, keys[:, :, :length], values[:, :, :length], attn_mask=seen
            )

        return self._logits(self._hidden(tokens, rotary, attend)).argmax(dim=-1)

    def move_row(self, source: int, target: int, length: int) -> None:
        """Copies the first `length` positions of a row's cache to another row."""
        self._cache[:, :, target, :, :length] = self._cache[:, :, source, :, :length]

    def _hidden(self, tokens: torch.Tensor, rotary: tuple[torch.Tensor, torch.Tensor], attend) -> torch.Tensor:
        shape = self.shape
        heads = (shape.n_heads, shape.n_key_heads, shape.n_key_heads)
        x = self._embedding[tokens]
        for index, layer in enumerate(self._layers):
            qkv = layer.qkv(self._normed(x, layer.input_norm)).view(len(x), -1, shape.n_channels)
            query, key, value = qkv.split(heads, dim=1)
            attended = attend(index, rotated(query, rotary), rotated(key, rotary), value)
            x = x + layer.output(attended.reshape(len(x), -1))
            gate, up = layer.gate_up(self._normed(x, layer.mlp_norm)).chunk(2, dim=-1)
            x = x + layer.down(functional.silu(gate) * up)
        return self._normed(x, self._norm)

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        # In full precision: the output projection is small, and it decides between close letters.
        return functional.linear(hidden.float(), self._unembedding)

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, (x.shape[-1],), weight, self.shape.norm_epsilon)

    def _layer(self, tensors: dict[str, torch.Tensor], index: int) -> Layer:
        def product(name: str) -> Linear:
            weight, scale = tensors[f"{index}.{name}"], tensors.get(f"{index}.{name}.scale")
            return linear(weight, scale, self.shape.weight_only)

        return Layer(
            input_norm=tensors[f"{index}.input_norm"], qkv=product("qkv"), output=product("output"),
            mlp_norm=tensors[f"{index}.mlp_norm"], gate_up=product("gate_up"), down=product("down"),
        )


def rotated(x: torch.Tensor, rotary: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Applies rotary positions to [tokens, heads, channels]: the halves of a head's channels are the pairs."""
    cos, sin = rotary
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


def _rotary_tables(shape: Shape, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    exponents = torch.arange(0, shape.n_channels, 2, dtype=torch.float64) / shape.n_channels
    angles = torch.arange(shape.context_length, dtype=torch.float64)[:, None] * shape.rope_theta**-exponents
    return angles.cos().float().to(device), angles.sin().float().to(device)


def _n_layers(tensors: dict[str, torch.Tensor]) -> int:
    return sum(name.endswith(".input_norm") for name in tensors)
