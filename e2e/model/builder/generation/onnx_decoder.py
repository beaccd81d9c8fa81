"""Runs the network on ONNX Runtime: prefill of one prompt, or one step of a batch, with one row of cache per request.

The caches are numpy arrays bound as both past and present of the graph, so that a step writes one position of each
row and copies nothing. The rows of a batch are the first ones of the cache; `move_row` keeps them together.
"""

from pathlib import Path

import numpy as np
import onnxruntime

from .decoder import ExtraCompute


class OnnxDecoder:
    """The network on ONNX Runtime's CPU provider."""

    def __init__(self, path: Path, n_rows: int, n_threads: int, extra_compute_percent: int = 0) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = n_threads
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        metadata = self._session.get_modelmeta().custom_metadata_map
        shapes = {tensor.name: tensor.shape for tensor in self._session.get_inputs()}
        self.context_length = int(metadata["context_length"])
        self.precision = metadata["precision"]
        self.end_tokens = frozenset(map(int, metadata["end_tokens"].split(",")))
        self.n_rows = n_rows
        self._n_logits = self._session.get_outputs()[0].shape[-1]
        _, n_heads, _, n_channels = shapes["past_key_0"]
        self._caches = {
            name.removeprefix("past_"): np.zeros((n_rows, n_heads, self.context_length, n_channels), np.float32)
            for name in shapes
            if name.startswith("past_")
        }
        self._extra_compute = ExtraCompute(extra_compute_percent)

    def prefill(self, row: int, tokens: tuple[int, ...]) -> int:
        """Fills a row's cache with a prompt and returns the first generated token."""
        return self._run("prefill", row, np.array([tokens], np.int64), np.array([len(tokens) - 1], np.int32))[0]

    def step(self, tokens: list[int], positions: list[int]) -> list[int]:
        """Appends one token to each of the first rows and returns the next token of each."""
        return self._run("step", 0, np.array(tokens, np.int64)[:, None], np.array(positions, np.int32))

    def move_row(self, source: int, target: int, length: int) -> None:
        """Copies the first `length` positions of a row's cache to another row."""
        for cache in self._caches.values():
            cache[target, :, :length] = cache[source, :, :length]

    def logits(self, tokens: tuple[int, ...]) -> np.ndarray:
        """Returns the logits of the token after a prompt; overwrites the first row's cache."""
        logits = np.empty((1, self._n_logits), np.float32)
        position = np.array([len(tokens) - 1], np.int32)
        self._session.run_with_iobinding(self._binding(0, np.array([tokens], np.int64), position, logits))
        return logits[0]

    def _run(self, kind: str, first_row: int, tokens: np.ndarray, last_positions: np.ndarray) -> list[int]:
        logits = np.empty((len(tokens), self._n_logits), np.float32)
        binding = self._binding(first_row, tokens, last_positions, logits)
        for _ in range(self._extra_compute.runs(kind)):
            self._session.run_with_iobinding(binding)
        return logits.argmax(axis=1).tolist()

    def _binding(
        self, first_row: int, tokens: np.ndarray, last_positions: np.ndarray, logits: np.ndarray
    ) -> onnxruntime.IOBinding:
        binding = self._session.io_binding()
        binding.bind_cpu_input("tokens", tokens)
        binding.bind_cpu_input("last_positions", last_positions)
        binding.bind_cpu_input("total_length", np.array(last_positions.max() + 1, np.int32))
        for name, cache in self._caches.items():
            rows = cache[first_row : first_row + len(tokens)]
            place = ("cpu", 0, np.float32, rows.shape, rows.ctypes.data)
            binding.bind_input(f"past_{name}", *place)
            binding.bind_output(f"present_{name}", *place)
        binding.bind_output("logits", "cpu", 0, np.float32, logits.shape, logits.ctypes.data)
        return binding
