"""Ways to write a matrix product with constant weights: 32-bit floating point, or 8-bit integers."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from onnx import TensorProto

if TYPE_CHECKING:
    from .graph import Graph

LinearWriter = Callable[["Graph", str, np.ndarray, str], str]
"""Writes y = x W^T: takes the graph, a name, W as [out, in] and the name of x; returns the name of y."""

_SMALLEST_SCALE = np.float32(1e-8)


def float32(graph: "Graph", name: str, weight: np.ndarray, x: str) -> str:
    """Computes in 32-bit floating point."""
    return graph.node("MatMul", [x, graph.weight(f"{name}.weight", weight.T)], name)


def int8(graph: "Graph", name: str, weight: np.ndarray, x: str) -> str:
    """Computes in 8-bit integers: weights quantized once per output channel, activations at run time per row.

    ONNX Runtime's own dynamic quantization (DynamicQuantizeLinear) takes one scale for a whole batch of
    activations; then an answer would depend on which requests share its batch. One scale per row keeps rows
    independent. Signed weights with unsigned activations are what VNNI multiplies directly; processors without it
    saturate some 16-bit sums, which costs accuracy there.
    """
    column_scale = np.maximum(np.abs(weight).max(axis=1), _SMALLEST_SCALE) / 127
    quantized_weight = np.round(weight / column_scale[:, None]).astype(np.int8)
    quantized_x, row_scale = _quantized_rows(graph, name, x)
    zero = graph.weight(f"{name}.zero", np.array(128, np.uint8))
    weight_name = graph.weight(f"{name}.weight", quantized_weight.T)
    product = graph.node("MatMulInteger", [quantized_x, weight_name, zero], f"{name}.product")
    product = graph.node("Cast", [product], f"{name}.float_product", to=TensorProto.FLOAT)
    scale = graph.weight(f"{name}.column_scale", column_scale.astype(np.float32))
    return graph.node("Mul", [graph.node("Mul", [product, scale], f"{name}.by_column"), row_scale], name)


def _quantized_rows(graph: "Graph", name: str, x: str) -> tuple[str, str]:
    """Writes x as unsigned bytes around 128 and its scale, one per row."""
    axis = graph.weight(f"{name}.axis", np.array([-1], np.int64))
    largest = graph.node("ReduceMax", [graph.node("Abs", [x], f"{name}.magnitude"), axis], f"{name}.largest")
    per_step = graph.weight(f"{name}.per_step", np.array(1 / 127, np.float32))
    scale = graph.node("Mul", [largest, per_step], f"{name}.step")
    scale = graph.node("Max", [scale, graph.weight(f"{name}.smallest", np.array(_SMALLEST_SCALE))], f"{name}.row_scale")
    rounded = graph.node("Round", [graph.node("Div", [x, scale], f"{name}.steps")], f"{name}.rounded")
    offset = graph.weight(f"{name}.offset", np.array(128, np.float32))
    shifted = graph.node("Add", [rounded, offset], f"{name}.shifted")
    return graph.node("Cast", [shifted], f"{name}.quantized", to=TensorProto.UINT8), scale
