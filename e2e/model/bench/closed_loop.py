"""Measures arms of the batching under closed-loop load, in processor time: other work on the machine hardly disturbs it.

    taskset -c 1 python3 bench/closed_loop.py --rounds 3 DIR/model_repository max_batch=1 max_batch=32

The generation code runs in this process and the clock is its thread's processor time, so what Triton adds is left out
(bench/load.py has that). Each arm gets the same prompts of the demo's traffic in the same order; a round runs all arms
at all levels, every other round in reverse. Printed are all rounds: requests/s, p50 and p95 in milliseconds.
"""

import argparse
import json
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from builder.generation.batcher import Batcher  # noqa: E402
from builder.generation.engine import Engine, load_engine  # noqa: E402
from builder.generation.request import GenerationRequest, checked_request  # noqa: E402

PROMPTS = ROOT.parent / "manifests" / "demo" / "workload" / "prompts.jsonl"


def requests(count: int, engine: Engine) -> list[GenerationRequest]:
    """Draws requests of the demo's traffic, placeholders filled."""
    rng = random.Random("closed loop")
    lines = [json.loads(line) for line in PROMPTS.read_text().splitlines()]
    drawn = []
    for line in (rng.choice(lines) for _ in range(count)):
        prompt = line["prompt"]
        while "{{number}}" in prompt:
            prompt = prompt.replace("{{number}}", str(rng.randrange(1, 100_000)), 1)
        while "{{word}}" in prompt:
            name = "".join(rng.choice("bdgklmnprstv") + rng.choice("aeiou") for _ in range(3)).capitalize()
            prompt = prompt.replace("{{word}}", name, 1)
        drawn.append(checked_request(
            prompt.encode(), line["maxTokens"], [b"\n\n"], engine.vocabulary, engine.context_length
        ))
    return drawn


def run(batcher: Batcher[int], level: int, todo: list[GenerationRequest]) -> tuple[float, float, float]:
    """Keeps `level` requests under way until `todo` is done; returns requests a second and p50, p95 in milliseconds."""
    begun = [0.0] * len(todo)
    finished: list[tuple[int, float]] = []
    start = time.thread_time()
    n_sent = 0
    while len(finished) < len(todo):
        while n_sent < len(todo) and n_sent - len(finished) < level:
            begun[n_sent] = time.thread_time()
            batcher.submit(n_sent, todo[n_sent])
            n_sent += 1
        for progress in batcher.step():
            if progress.finish_reason is not None:
                finished.append((progress.key, time.thread_time()))
    # As in a campaign, the first and the last `level` requests are left out: they meet an idle server.
    kept = [(begun[key], end) for key, end in finished if level <= key < len(todo) - level]
    latencies = sorted(1000 * (end - begin) for begin, end in kept)
    elapsed = finished[-1 - level][1] - finished[level - 1][1] if level > 1 else finished[-1][1] - start
    rate = (len(finished) - 2 * level if level > 1 else len(finished)) / elapsed
    return rate, latencies[len(latencies) // 2], latencies[int(0.95 * len(latencies))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("arms", nargs="+", help="as in max_batch=32")
    parser.add_argument("--levels", type=int, nargs="+", default=[1, 8, 16])
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    version = arguments.repository / "agent" / "1"
    todo = requests(arguments.requests, load_engine(version, n_rows=1, n_threads=1))
    results: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for number in range(arguments.rounds):
        for arm in arguments.arms if number % 2 == 0 else reversed(arguments.arms):
            name, _, value = arm.partition("=")
            if name != "max_batch":
                parser.error(f"unknown parameter {name}; known is max_batch")
            engine = load_engine(version, int(value), n_threads=1)
            for level in arguments.levels:
                results.setdefault((arm, level), []).append(run(Batcher(engine), level, todo))
    for (arm, level), rounds in sorted(results.items(), key=lambda entry: entry[0][1]):
        columns = (" ".join(f"{value:6.1f}" for value in column) for column in zip(*rounds))
        print(f"{arm:16} level {level:2}: " + " | ".join(columns))


if __name__ == "__main__":
    main()
