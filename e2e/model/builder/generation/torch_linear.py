"""Matrix products with constant weights in torch: floating point, 8-bit integers, or FP8 (E4M3).

With 8 bits a weight has one scale per output channel. Activations get one per row while the engine runs, so a row does
not depend on what it is batched with. `WeightOnly` leaves activations in floating point, and widens the weights at each
product: for GPUs that multiply no such numbers.
"""

from typing import Protocol

import torch
from torch.nn import functional

SMALLEST_SCALE = 1e-8
E4M3_MAX = 448.0
_INT8_ROWS = 32
"""cuBLAS multiplies integers of more than 16 rows only; batches are padded to a multiple of this."""


class Linear(Protocol):
    """Computes x W^T of rows."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Takes [rows, in] and returns [rows, out] in the same type."""


class Float:
    """Weights in the type of the activations."""

    def __init__(self, weight: torch.Tensor) -> None:
        self._weight = weight

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Computes in floating point."""
        return functional.linear(x, self._weight)


class WeightOnly:
    """Weights of 8 bits, which are widened before each product."""

    def __init__(self, weight: torch.Tensor, scale: torch.Tensor) -> None:
        self._weight, self._scale = weight, scale

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Computes in floating point."""
        # Scaled first: sums of unscaled products exceed what 16 bits hold.
        weight = (self._weight.float() * self._scale[:, None]).to(x.dtype)
        return functional.linear(x, weight)


class Int8:
    """Weights and activations as 8-bit integers, sums of 32 bits."""

    def __init__(self, weight: torch.Tensor, scale: torch.Tensor) -> None:
        self._weight, self._scale = weight, scale

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Computes in integers."""
        step = row_step(x, 127.0)
        rounded = torch.round(x.float() / step).to(torch.int8)
        rounded = functional.pad(rounded, (0, 0, 0, -len(x) % _INT8_ROWS))
        product = torch._int_mm(rounded, self._weight.t())[: len(x)]
        return (product.float() * step * self._scale).to(x.dtype)


class Fp8:
    """Weights and activations in E4M3, sums of 32 bits."""

    def __init__(self, weight: torch.Tensor, scale: torch.Tensor) -> None:
        self._weight, self._scale = weight, scale
        self._one = torch.ones((), device=weight.device)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Computes in FP8; the scales are applied to the sums, since kernels with scales of their own are few."""
        step = row_step(x, E4M3_MAX)
        rounded = (x.float() / step).to(torch.float8_e4m3fn)
        product = torch._scaled_mm(rounded, self._weight.t(), self._one, self._one, out_dtype=torch.float32)
        return (product * step * self._scale).to(x.dtype)


def row_step(x: torch.Tensor, largest: float) -> torch.Tensor:
    """Returns the scale of each row by which its greatest magnitude becomes `largest`, as [rows, 1]."""
    return x.abs().amax(dim=-1, keepdim=True).float().clamp_min(SMALLEST_SCALE) / largest


def quantized(weight: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns a weight [out, in] in 8 bits, and its scale per output channel as [out]."""
    step = row_step(weight, 127.0 if dtype == torch.int8 else E4M3_MAX)
    scaled = weight.float() / step
    return (scaled.round() if dtype == torch.int8 else scaled).to(dtype), step[:, 0]


def linear(weight: torch.Tensor, scale: torch.Tensor | None, weight_only: bool) -> Linear:
    """Returns the product for a weight as it is stored."""
    if scale is None:
        return Float(weight)
    if weight_only:
        return WeightOnly(weight, scale)
    return Int8(weight, scale) if weight.dtype == torch.int8 else Fp8(weight, scale)
