"""Measures an engine in a real Triton under closed-loop load: N clients, each with one request under way.

    SECONDS=8 TRITON_CORE=1 taskset -c 0 python3 bench/load.py DIR/model_repository ...

Needs the packages of tests/triton/requirements.txt. Prompts are calls of training episodes, no two alike.
"""

import os
import random
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent / "tests" / "triton")]

from client import Generation  # noqa: E402
from server import TritonServer  # noqa: E402

from corpus.episodes import MAX_BYTES, draw_episode  # noqa: E402
from corpus.split import Split  # noqa: E402

LEVELS = (1, 8, 32)


@dataclass(frozen=True)
class Sample:
    """One finished request; times in milliseconds."""

    first_piece: float
    total: float
    n_tokens: int


class Prompts:
    """Hands out prompts to all clients."""

    def __init__(self) -> None:
        self._rng = random.Random("load")
        self._lock = threading.Lock()
        self._ready: list[str] = []

    def take(self) -> str:
        """Returns a prompt that was not used before."""
        with self._lock:
            if not self._ready:
                self._ready = [prompt for prompt, _ in draw_episode(self._rng, Split.TRAINING, MAX_BYTES).model_calls()]
            return self._ready.pop()


def run_level(address: str, n_clients: int, seconds: float, prompts: Prompts) -> tuple[list[Sample], float]:
    """Loads the server and returns the finished requests with the time it took."""
    samples: list[Sample] = []
    start = time.monotonic()

    def client() -> None:
        while time.monotonic() < start + seconds:
            begin = time.monotonic()
            generation = Generation(address, prompts.take())
            first = generation.next_piece()
            first_at = time.monotonic()
            last = first if first.is_final else generation.pieces()[-1]
            samples.append(Sample(1000 * (first_at - begin), 1000 * (time.monotonic() - begin), last.output_tokens))

    threads = [threading.Thread(target=client) for _ in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return samples, time.monotonic() - start


def main() -> None:
    seconds = float(os.environ.get("SECONDS", "8"))
    prompts = Prompts()
    for repository in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as folder, TritonServer(repository, Path(folder)) as server:
            core = os.environ.get("TRITON_CORE")
            if core:
                server.pin(int(core))
            run_level(server.grpc, 2, 2, prompts)
            print(f"{repository}:")
            for n_clients in LEVELS:
                samples, elapsed = run_level(server.grpc, n_clients, seconds, prompts)
                total = sorted(sample.total for sample in samples)
                first = statistics.median(sample.first_piece for sample in samples)
                n_tokens = sum(sample.n_tokens for sample in samples)
                print(
                    f"  {n_clients:2} clients: {n_tokens / elapsed:6.0f} tokens/s, "
                    f"{len(samples) / elapsed:5.1f} requests/s, "
                    f"p50 {statistics.median(total):5.0f} ms, p95 {total[int(0.95 * len(total))]:5.0f} ms, "
                    f"first piece p50 {first:5.0f} ms, {len(samples)} requests",
                    flush=True,
                )


if __name__ == "__main__":
    main()
