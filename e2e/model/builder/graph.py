"""Writes a Llama as ONNX, one graph for prefill and for batched decoding.

Attention is ONNX Runtime's GroupQueryAttention (com.microsoft, docs/ContribOperators.md of onnxruntime): it applies
rotary positions, takes one length per row, and updates the key-value cache in place when past and present are bound
to the same memory. Rows are computed independently of each other, so a row's result does not depend on its batch.

Inputs: `tokens` INT64 [batch, length]; `last_positions` INT32 [batch], each row's last valid position;
`total_length` INT32, the longest row; `past_key_I`, `past_value_I` [batch, heads, capacity, channels].
Outputs: `logits` [batch, vocabulary] of the last column of `tokens`; `present_key_I`, `present_value_I`.
"""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .checkpoint import Checkpoint
from .linear import LinearWriter

OPSET = 23
CONTRIB_DOMAIN = "com.microsoft"


@dataclass
class Graph:
    """Nodes and weights written so far."""

    nodes: list[onnx.NodeProto]
    initializers: list[onnx.TensorProto]

    def weight(self, name: str, value: np.ndarray) -> str:
        """Adds a constant and returns its name."""
        self.initializers.append(numpy_helper.from_array(np.asarray(value, order="C"), name))
        return name

    def node(self, op: str, inputs: list[str], output: str, **attributes) -> str:
        """Adds a node with one output and returns the output's name."""
        self.nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output


def build_graph(checkpoint: Checkpoint, linear: LinearWriter) -> onnx.ModelProto:
    """Returns the model; `linear` decides how the big matrix products are computed."""
    config = checkpoint.config
    graph = Graph([], [])
    cos, sin = _rotary_tables(config.head_dim, config.max_position_embeddings, config.rope_theta)
    graph.weight("cos", cos)
    graph.weight("sin", sin)
    embedding = checkpoint.tensor("model.embed_tokens.weight")
    x = graph.node("Gather", [graph.weight("embedding", embedding), "tokens"], "embedded")
    for index in range(config.num_hidden_layers):
        x = _layer(graph, checkpoint, linear, index, x)
    x = graph.node("Gather", [x, graph.weight("last_column", np.array(-1, np.int64))], "last_hidden", axis=1)
    x = _norm(graph, checkpoint, "model.norm", x)
    # The output projection stays in full precision: it is small, and it decides between close letters.
    graph.node("MatMul", [x, graph.weight("unembedding", checkpoint.output_embedding().T)], "logits")
    return _model(graph, checkpoint)


def _layer(graph: Graph, checkpoint: Checkpoint, linear: LinearWriter, index: int, x: str) -> str:
    prefix, name = f"model.layers.{index}", f"layer{index}"
    normed = _norm(graph, checkpoint, f"{prefix}.input_layernorm", x)
    qkv = np.concatenate([checkpoint.tensor(f"{prefix}.self_attn.{part}_proj.weight") for part in "qkv"])
    attended = _attention(graph, checkpoint, index, linear(graph, f"{name}.qkv", qkv, normed))
    output = linear(graph, f"{name}.output", checkpoint.tensor(f"{prefix}.self_attn.o_proj.weight"), attended)
    x = graph.node("Add", [x, output], f"{name}.attended")
    normed = _norm(graph, checkpoint, f"{prefix}.post_attention_layernorm", x)
    gate, up = (checkpoint.tensor(f"{prefix}.mlp.{part}_proj.weight") for part in ("gate", "up"))
    both = linear(graph, f"{name}.gate_up", np.concatenate([gate, up]), normed)
    gate, up = f"{name}.gate", f"{name}.up"
    graph.nodes.append(helper.make_node("Split", [both], [gate, up], name=f"{name}.split", axis=-1, num_outputs=2))
    # x * sigmoid(x), which is SiLU.
    activated = graph.node("QuickGelu", [gate], f"{name}.activated", domain=CONTRIB_DOMAIN, alpha=1.0)
    hidden = graph.node("Mul", [activated, up], f"{name}.hidden")
    down = linear(graph, f"{name}.down", checkpoint.tensor(f"{prefix}.mlp.down_proj.weight"), hidden)
    return graph.node("Add", [x, down], f"{name}.result")


def _attention(graph: Graph, checkpoint: Checkpoint, index: int, qkv: str) -> str:
    output = f"layer{index}.attention"
    graph.nodes.append(helper.make_node(
        "GroupQueryAttention",
        [qkv, "", "", f"past_key_{index}", f"past_value_{index}", "last_positions", "total_length", "cos", "sin"],
        [output, f"present_key_{index}", f"present_value_{index}"],
        name=output, domain=CONTRIB_DOMAIN, do_rotary=1, rotary_interleaved=0,
        num_heads=checkpoint.config.num_attention_heads, kv_num_heads=checkpoint.config.num_key_value_heads,
    ))
    return output


def _norm(graph: Graph, checkpoint: Checkpoint, tensor: str, x: str) -> str:
    scale = graph.weight(f"{tensor}.weight", checkpoint.tensor(f"{tensor}.weight"))
    return graph.node("RMSNormalization", [x, scale], f"{tensor}.output", epsilon=checkpoint.config.rms_norm_eps)


def _rotary_tables(head_size: int, n_positions: int, theta: float) -> tuple[np.ndarray, np.ndarray]:
    frequencies = theta ** (-np.arange(0, head_size, 2) / head_size)
    angles = np.arange(n_positions)[:, None] * frequencies
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def _model(graph: Graph, checkpoint: Checkpoint) -> onnx.ModelProto:
    config = checkpoint.config
    cache = ["batch", config.num_key_value_heads, "capacity", config.head_dim]
    inputs = [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "length"]),
        helper.make_tensor_value_info("last_positions", TensorProto.INT32, ["batch"]),
        helper.make_tensor_value_info("total_length", TensorProto.INT32, []),
    ]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", config.vocab_size])]
    for index in range(config.num_hidden_layers):
        for part in ("key", "value"):
            inputs.append(helper.make_tensor_value_info(f"past_{part}_{index}", TensorProto.FLOAT, cache))
            outputs.append(helper.make_tensor_value_info(f"present_{part}_{index}", TensorProto.FLOAT, cache))
    return helper.make_model(
        helper.make_graph(graph.nodes, "agent", inputs, outputs, graph.initializers),
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB_DOMAIN, 1)],
        ir_version=11, producer_name="slipway-demo-builder",
    )
