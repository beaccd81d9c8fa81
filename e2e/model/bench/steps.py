"""Measures single steps of an engine in this process: decoding at several batch sizes, and prefill.

    taskset -c 1 python3 bench/steps.py DIR/model_repository ...

Times are of the thread's processor time, so that other work on the machine disturbs them less; each is the minimum
and the median of 40.
"""

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from builder.generation.onnx_decoder import OnnxDecoder  # noqa: E402

N_REPETITIONS = 40
N_POSITIONS = 300
"""Length of prompts and of what a step attends to: about that of the demo's calls."""


def milliseconds(action: Callable[[], object]) -> str:
    """Returns minimum and median of an action's processor time."""
    times = []
    for _ in range(N_REPETITIONS):
        start = time.thread_time()
        action()
        times.append(1000 * (time.thread_time() - start))
    return f"{min(times):7.2f} /{statistics.median(times):7.2f}"


def main() -> None:
    for repository in sys.argv[1:]:
        decoder = OnnxDecoder(Path(repository) / "agent" / "1" / "model.onnx", n_rows=32, n_threads=1)
        prompt = tuple(32 + (7 * index) % 90 for index in range(N_POSITIONS))
        for row in range(32):
            decoder.prefill(row, prompt)
        print(f"{repository}: {decoder.precision}")
        for n_rows in (1, 8, 32):
            tokens, positions = [65] * n_rows, [N_POSITIONS] * n_rows
            print(f"  step of {n_rows:2}  {milliseconds(partial(decoder.step, tokens, positions))} ms")
        print(f"  prefill of {N_POSITIONS} {milliseconds(partial(decoder.prefill, 0, prompt))} ms", flush=True)


if __name__ == "__main__":
    main()
