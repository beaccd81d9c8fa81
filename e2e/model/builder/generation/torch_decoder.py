"""Runs the network on torch: on the GPU where there is one, else on the CPU.

On a GPU a step is a CUDA graph: a model of this size computes faster than Python can start its kernels. Graphs have
constant shapes, so batches and lengths are rounded up, and one graph is captured for each pair at load. What fills a
batch up writes to rows that nobody holds.
"""

import contextlib
import itertools
import os
from pathlib import Path

import torch

from .buckets import Buckets
from .decoder import ExtraCompute
from .torch_network import Network

_SHORTEST_LENGTH = 256
_WARM_UP_RUNS = 2
"""Before a capture, so that libraries have made their plans and their memory."""


class TorchDecoder:
    """The network and the graphs of its steps."""

    @torch.inference_mode()
    def __init__(
        self, path: Path, n_rows: int, n_threads: int, extra_compute_percent: int = 0, cuda_graphs: bool = True
    ) -> None:
        torch.set_num_threads(n_threads)
        # cuDNN would make a plan for each length of a prompt.
        torch.backends.cuda.enable_cudnn_sdp(False)
        self._device = _device()
        self._network = Network(path, self._device, n_rows)
        shape = self._network.shape
        self.context_length, self.precision = shape.context_length, shape.precision
        self.end_tokens, self.n_rows = frozenset(shape.end_tokens), n_rows
        self._extra_compute = ExtraCompute(extra_compute_percent)
        self._inputs = torch.zeros((2, n_rows), dtype=torch.int64, device=self._device)
        self._batches = Buckets.doubling(1, n_rows)
        self._lengths = Buckets.doubling(min(_SHORTEST_LENGTH, self.context_length), self.context_length)
        self._graphs: dict[tuple[int, int], tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}
        if cuda_graphs and self._device.type == "cuda":
            self._capture()

    @torch.inference_mode()
    def prefill(self, row: int, tokens: tuple[int, ...]) -> int:
        """Fills a row's cache with a prompt and returns the first generated token."""
        prompt = torch.tensor(tokens, device=self._device)
        for _ in range(self._extra_compute.runs("prefill")):
            token = self._network.prefill(row, prompt).argmax()
        return int(token)

    @torch.inference_mode()
    def step(self, tokens: list[int], positions: list[int]) -> list[int]:
        """Appends one token to each of the first rows and returns the next token of each."""
        n_rows, length = len(tokens), max(positions) + 1
        self._inputs[:, :n_rows] = torch.tensor([tokens, positions])
        key = self._batches.holding(n_rows), self._lengths.holding(length)
        for _ in range(self._extra_compute.runs("step")):
            if key in self._graphs:
                graph, following = self._graphs[key]
                graph.replay()
            else:
                following = self._network.step(*self._inputs[:, :n_rows], length)
        return following[:n_rows].tolist()

    @torch.inference_mode()
    def move_row(self, source: int, target: int, length: int) -> None:
        """Copies the first `length` positions of a row's cache to another row."""
        self._network.move_row(source, target, length)

    @torch.inference_mode()
    def logits(self, tokens: tuple[int, ...]) -> torch.Tensor:
        """Returns the logits of the token after a prompt; overwrites the first row's cache."""
        return self._network.prefill(0, torch.tensor(tokens, device=self._device)).cpu()

    def _capture(self) -> None:
        pool = torch.cuda.graph_pool_handle()
        # The largest first: smaller ones then fit into its memory.
        sizes = itertools.product(reversed(self._batches.sizes), reversed(self._lengths.sizes))
        for n_rows, length in sizes:
            tokens, positions = self._inputs[:, :n_rows]
            with _beside():
                for _ in range(_WARM_UP_RUNS):
                    self._network.step(tokens, positions, length)
            graph = torch.cuda.CUDAGraph()
            # Triton's own threads may call CUDA meanwhile.
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
                following = self._network.step(tokens, positions, length)
            self._graphs[n_rows, length] = graph, following


def _device() -> torch.device:
    """Returns where the network runs: never on the CPU of a container that was given a GPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    given = os.environ.get("NVIDIA_VISIBLE_DEVICES", "void")
    if given not in ("", "void", "none"):
        raise RuntimeError(f"torch {torch.__version__} sees no GPU, but the container has {given}")
    return torch.device("cpu")


@contextlib.contextmanager
def _beside():
    """Runs what is within on a stream of its own, as a capture's rules want of a warm-up."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)
