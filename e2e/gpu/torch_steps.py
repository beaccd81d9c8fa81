#!/usr/bin/env python3
"""Times single steps of a torch engine on this machine's GPU: decoding at several batch sizes, and prefill.

    torch_steps.py VERSION_FOLDER        such as model_repository/agent/1; `builder` must be on PYTHONPATH

Each is the median of 40, in wall time, with CUDA graphs and without.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from builder.generation.engine import load_engine

N_REPETITIONS = 40
N_POSITIONS = 300
"""Length of prompts and of what a step attends to: about that of the demo's calls."""
BATCHES = (1, 8, 32, 64)


def milliseconds(action: Callable[[], object]) -> str:
    """Returns the median of an action's time; results are read back, so that it includes the GPU's work."""
    times = []
    for _ in range(N_REPETITIONS):
        start = time.perf_counter()
        action()
        times.append(1000 * (time.perf_counter() - start))
    return f"{statistics.median(times):.2f}"


def main() -> None:
    """Prints a line for each way of running steps."""
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "CPU"
    for graphs in (True, False):
        start = time.perf_counter()
        decoder = load_engine(Path(sys.argv[1]), max(BATCHES), n_threads=1, cuda_graphs=graphs).decoder
        loaded = time.perf_counter() - start
        prompt = tuple(32 + (7 * index) % 90 for index in range(N_POSITIONS))
        for row in range(max(BATCHES)):
            decoder.prefill(row, prompt)
        steps = [
            f"{batch}: {milliseconds(partial(decoder.step, [65] * batch, [N_POSITIONS] * batch))}" for batch in BATCHES
        ]
        prefill = milliseconds(partial(decoder.prefill, 0, prompt))
        print(
            f"{device}, {decoder.precision}, graphs {graphs}: loaded in {loaded:.1f} s; "
            f"ms a step of {', '.join(steps)}; prefill of {N_POSITIONS} {prefill}", flush=True,
        )


if __name__ == "__main__":
    main()
