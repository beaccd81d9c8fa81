"""The network: a decoder-only transformer with rotary positions and grouped-query attention.

The builder writes the same computation as ONNX; `config.json` holds everything both need to agree on.
"""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from builder.generation.tokens import VOCABULARY_SIZE


@dataclass(frozen=True)
class Shape:
    """The hyperparameters, under the names Hugging Face's configurations use."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    intermediate_size: int
    max_position_embeddings: int = 768
    rope_theta: float = 10000.0
    layer_norm_eps: float = 1e-5
    vocab_size: int = VOCABULARY_SIZE

    @property
    def head_size(self) -> int:
        """Channels per attention head."""
        return self.hidden_size // self.num_attention_heads


class Attention(nn.Module):
    """Causal attention whose query heads share fewer key and value heads (arXiv:2305.13245)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        kv_width = shape.num_key_value_heads * shape.head_size
        self.q_proj = nn.Linear(shape.hidden_size, shape.hidden_size, bias=False)
        self.k_proj = nn.Linear(shape.hidden_size, kv_width, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, kv_width, bias=False)
        self.o_proj = nn.Linear(shape.hidden_size, shape.hidden_size, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q = rotated(self._heads(self.q_proj(x)), cos, sin)
        k = rotated(self._heads(self.k_proj(x)), cos, sin)
        v = self._heads(self.v_proj(x))
        group = self.shape.num_attention_heads // self.shape.num_key_value_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (-1, self.shape.head_size)).transpose(1, 2)


class Layer(nn.Module):
    """One pre-norm transformer layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = nn.LayerNorm(shape.hidden_size, shape.layer_norm_eps, bias=False)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.LayerNorm(shape.hidden_size, shape.layer_norm_eps, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.down_proj(functional.gelu(self.up_proj(self.post_attention_layernorm(x))))


class Network(nn.Module):
    """Tokens to logits; the output projection is the embedding, transposed."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))
        self.norm = nn.LayerNorm(shape.hidden_size, shape.layer_norm_eps, bias=False)
        nn.init.normal_(self.embed_tokens.weight, std=0.02)
        cos, sin = rotary_tables(shape)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return functional.linear(self.norm(x), self.embed_tokens.weight)


def rotary_tables(shape: Shape) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns cosines and sines per position, one column per pair of channels (arXiv:2104.09864)."""
    frequencies = shape.rope_theta ** (-torch.arange(0, shape.head_size, 2) / shape.head_size)
    angles = torch.arange(shape.max_position_embeddings)[:, None] * frequencies
    return angles.cos(), angles.sin()


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotates each pair made of a channel of the first half and its partner in the second."""
    first, second = x.chunk(2, dim=-1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
