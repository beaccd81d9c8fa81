#!/usr/bin/env python3
"""What each step from plain transformers to vLLM in FP8, and to what Slipway chooses, gains for an agent, on one GPU.

The weights are random, of a given shape, for speed depends on the shape alone. So the model decides nothing: every run
has STEPS turns of NEW_TOKENS tokens, and between two turns a tool that takes TOOL_SECONDS and answers TOOL_TOKENS
tokens. A turn reads all that was before it. Stages:

    blocking      transformers, one agent after another, the GPU waits for tools
    overlapped    transformers, several agents; while one waits for its tool, another generates
    bf16, fp8     vLLM's server, every agent asks for itself
    tuned         the same with other configurations and levels, of which Slipway chooses (tuned.py)

    ladder.py --config FILE [--stages NAME...] [--rows FILE...] [--analysis BINARY] [--objective SECONDS] [--seconds N]
              [--out FOLDER]
    ladder.py --stages --rows FILE... --analysis BINARY [--out FOLDER]      chooses of earlier rows, without a GPU

ladder.json has the rows, those of --rows included; profile.json has vLLM's as a Profile; ladder.md is the report.
"""
import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tuned
from behind_runtime import MODEL, Busy, NotReady, percentile, start_vllm, write_checkpoint

STEPS, NEW_TOKENS, PROMPT_TOKENS, TOOL_TOKENS, TOOL_SECONDS = 5, 48, 300, 60, 0.2
# Agents at once, and the runs of each.
LEVELS = {1: 4, 4: 3, 16: 3, 64: 2, 128: 2, 256: 2}
TRANSFORMERS_LEVELS = {"blocking": {1: 4}, "overlapped": {4: 2}}
STAGES = [*TRANSFORMERS_LEVELS, *tuned.ENGINES]
# The traffic as `workloads[].synthetic` of an AgentDeployment.
TRAFFIC = {"inputTokens": PROMPT_TOKENS, "outputTokens": NEW_TOKENS, "toolCalls": STEPS - 1,
           "toolResultTokens": TOOL_TOKENS, "toolLatency": f"{TOOL_SECONDS * 1e3:.0f}ms"}
# What vLLM takes until it is ready. With less time left none is started.
START_SECONDS = 90


@dataclass
class Ladder:
    """What is measured until when, and the rows so far."""

    config: Path
    out: Path
    objective: float
    until: float
    busy: Busy
    rows: list[dict]
    problems: int = 0

    def note(self, stage: str, row: dict, samples: int, more: dict) -> dict:
        """Keeps a row, with the samples of the GPU since so many."""
        row |= {"stage": stage, "device": self.busy.device, "busy": self.busy.samples[samples:]} | more
        self.rows.append(row)
        print(f"{name_of(row)}, {row['agents']} agents: {row['runs'] / row['took']:.3f} runs/s, p50 "
              f"{percentile(row['seconds'], 50):.2f} s, p95 {percentile(row['seconds'], 95):.2f} s", flush=True)
        return row

    def lacks(self, stage: str, engine: tuned.Engine, why: object) -> None:
        """Says what is not measured, and that the program has failed."""
        self.problems += 1
        print(f"{stage}, {engine.name}: {why}", file=sys.stderr, flush=True)


def name_of(row: dict) -> str:
    return f"{row['stage']}, {row['engine']}" if row["stage"] == tuned.STAGE else row["stage"]


def words(count: int) -> list[int]:
    return [random.randrange(1000, 100_000) for _ in range(count)]


async def run_of(generate, waits) -> dict:
    """A run, with the seconds to each turn's first token where they are known."""
    begun, tokens, firsts = time.monotonic(), words(PROMPT_TOKENS), []
    for step in range(STEPS):
        new, first = await generate(tokens)
        if len(new) != NEW_TOKENS:
            raise RuntimeError(f"{len(new)} tokens came, not {NEW_TOKENS}")
        firsts.append(first)
        if step < STEPS - 1:
            await waits(TOOL_SECONDS)
            tokens = tokens + new + words(TOOL_TOKENS)
    return {"seconds": time.monotonic() - begun, "firsts": firsts}


async def level(generate, agents: int, runs: int, waits=asyncio.sleep) -> dict:
    found: list[dict] = []

    async def agent() -> None:
        for _ in range(runs):
            found.append(await run_of(generate, waits))

    begun = time.monotonic()
    await asyncio.gather(*[agent() for _ in range(agents)])
    return {"agents": agents, "runs": len(found), "took": time.monotonic() - begun,
            "seconds": sorted(run["seconds"] for run in found),
            "firsts": sorted(first for run in found for first in run["firsts"] if first is not None)}


async def blocks(seconds: float) -> None:
    time.sleep(seconds)


def with_transformers(ladder: Ladder, stages: list[str]) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(ladder.config.read_text())
        shape = AutoConfig.from_pretrained(folder)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(shape, dtype=torch.bfloat16).eval()
    gpu = asyncio.Lock()

    def generated(tokens: list[int]) -> list[int]:
        ids = torch.tensor([tokens], device="cuda")
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW_TOKENS,
                                 min_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=0)
        return out[0, len(tokens):].tolist()

    async def generate(tokens: list[int]) -> tuple[list[int], None]:
        async with gpu:
            return await asyncio.to_thread(generated, tokens), None

    async def generate_here(tokens: list[int]) -> tuple[list[int], None]:
        return generated(tokens), None

    generated(words(PROMPT_TOKENS))
    for stage in stages:
        for agents, runs in TRANSFORMERS_LEVELS[stage].items():
            seen = len(ladder.busy.samples)
            asks, waits = (generate_here, blocks) if stage == "blocking" else (generate, asyncio.sleep)
            ladder.note(stage, asyncio.run(level(asks, agents, runs, waits)), seen, {})
    del model
    torch.cuda.empty_cache()


def asks(session, origin: str):
    """How an agent generates with vLLM's server."""

    async def generate(tokens: list[int]) -> tuple[list[int], float | None]:
        body = {"model": MODEL, "prompt": tokens, "max_tokens": NEW_TOKENS, "temperature": 0, "ignore_eos": True,
                "stream": True, "return_token_ids": True}
        begun, first, new = time.monotonic(), None, []
        async with session.post(f"{origin}/v1/completions", json=body) as response:
            if response.status != 200:
                raise RuntimeError(f"{response.status}: {await response.text()}")
            async for line in response.content:
                if line.startswith(b"data: {"):
                    for choice in json.loads(line[6:])["choices"]:
                        first = first or time.monotonic() - begun
                        new += choice.get("token_ids") or []
        return new, first

    return generate


async def asked_of_vllm(ladder: Ladder, origin: str, stage: str, engine: tuned.Engine) -> None:
    import aiohttp

    patience = aiohttp.ClientTimeout(600)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=patience) as session:
        generate = asks(session, origin)

        async def is_met(agents: int, runs: int) -> bool:
            seen = len(ladder.busy.samples)
            row = ladder.note(stage, await level(generate, agents, runs), seen, {"engine": engine.name})
            return percentile(row["seconds"], 95) <= ladder.objective

        await level(generate, 4, 1)
        if stage != tuned.STAGE:
            for agents, runs in LEVELS.items():
                if time.monotonic() < ladder.until:
                    await is_met(agents, runs)
            return
        # No smaller levels come before, in which kernels of large batches would be loaded.
        await level(generate, tuned.WARM_UP, 1)
        levels = tuned.LEVELS
        while levels and time.monotonic() < ladder.until:
            middle = len(levels) // 2
            # More agents than miss the objective would miss it by more.
            met = await is_met(levels[middle], tuned.RUNS)
            levels = levels[middle + 1:] if met else levels[:middle]


def with_vllm(ladder: Ladder, stage: str, engine: tuned.Engine) -> None:
    import aiohttp

    if time.monotonic() + START_SECONDS > ladder.until:
        ladder.lacks(stage, engine, "left out for want of time")
        return
    with tempfile.TemporaryDirectory() as name:
        write_checkpoint(ladder.config, Path(name))
        folder = ladder.out / (f"{stage}-{engine.name}" if stage == tuned.STAGE else stage)
        folder.mkdir(exist_ok=True)
        begun = time.monotonic()
        try:
            server, origin = start_vllm(Path(name), folder, engine.options())
            print(f"{stage}, {engine.name}: ready after {time.monotonic() - begun:.0f} s", flush=True)
            try:
                asyncio.run(asked_of_vllm(ladder, origin, stage, engine))
            finally:
                server.terminate()
                server.wait(60)
        except (NotReady, RuntimeError, aiohttp.ClientError) as problem:
            # The other engines may still be measured.
            ladder.lacks(stage, engine, problem)


def table(rows: list[dict]) -> list[str]:
    columns = ["stage", "agents at once", "runs/s", "tokens/s", "run p50, p95", "first token of a turn p50, p90, p99",
               "GPU busy"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in rows:
        rate = row["runs"] / row["took"]
        firsts = [f"{percentile(row['firsts'], at) * 1e3:.0f} ms" for at in (50, 90, 99)] if row["firsts"] else []
        busy = f"{statistics.mean(row['busy']):.0f} %" if row["busy"] else ""
        lines.append(f"| {name_of(row)} | {row['agents']} | {rate:.3f} | {rate * STEPS * NEW_TOKENS:,.0f} | "
                     f"{percentile(row['seconds'], 50):.2f}, {percentile(row['seconds'], 95):.2f} s | "
                     f"{', '.join(firsts)} | {busy} |")
    return lines


def report(rows: list[dict], objective: float, answer: dict | None) -> str:
    """The rows, and the ladder at the objective. Its last rung is the answer's choice."""
    best = {stage: max((row["runs"] / row["took"] for row in rows
                        if row["stage"] == stage and percentile(row["seconds"], 95) <= objective), default=None)
            for stage in dict.fromkeys(row["stage"] for row in rows) if stage != tuned.STAGE}
    said = tuned.words(answer, rows, best) if answer else ""
    if answer:
        best["tuned by Slipway"] = tuned.rate(answer)
    most = max((rate for rate in best.values() if rate), default=0.0)
    lines = [*table(rows), "", f"The most runs a second of which 95 % take at most {objective:g} s:", "",
             f"| stage | runs/s | of the stage before | GPUs for {most:.1f} runs/s |", "|---|---|---|---|"]
    before = None
    for stage, rate in best.items():
        if rate is None:
            lines.append(f"| {stage} | none | | |")
            continue
        gain = f"{rate / before:.2f} times" if before else ""
        lines.append(f"| {stage} | {rate:.3f} | {gain} | {most / rate:.2f} |")
        before = rate
    return "\n".join([*lines, "", said]).rstrip() + "\n"


def measure(ladder: Ladder, stages: list[str]) -> int:
    """The exit code."""
    print(f"{ladder.busy.device}, driver {ladder.busy.driver}", flush=True)
    # Earlier rows of another GPU are refused before anything is measured.
    tuned.device_of([*ladder.rows, {"device": ladder.busy.device}])
    if plain := [stage for stage in stages if stage in TRANSFORMERS_LEVELS]:
        with_transformers(ladder, plain)
    for stage in stages:
        for engine in tuned.ENGINES.get(stage, []):
            with_vllm(ladder, stage, engine)
    return 1 if ladder.problems else 0


def write(rows: list[dict], asked: argparse.Namespace) -> None:
    (asked.out / "ladder.json").write_text(json.dumps(rows))
    if not rows:
        return
    answer = None
    if profile := tuned.profile(rows, TRAFFIC):
        file = asked.out / "profile.json"
        file.write_text(json.dumps(profile, indent=1))
        if asked.analysis and any(row["stage"] == tuned.STAGE for row in rows):
            answer = tuned.answer(asked.analysis, file, asked.objective)
            (asked.out / "answer.json").write_text(json.dumps(answer, indent=1))
    shown = report(rows, asked.objective, answer)
    (asked.out / "ladder.md").write_text(shown)
    print(shown)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path)
    parser.add_argument("--stages", nargs="*", choices=STAGES, default=STAGES)
    parser.add_argument("--rows", nargs="+", type=Path, default=[], help="ladder.json of earlier runs on such a GPU")
    parser.add_argument("--analysis", type=Path, help="slipway-analysis, which chooses of the rows")
    parser.add_argument("--objective", type=float, default=5.0, help="seconds that 95 %% of the runs may take")
    parser.add_argument("--seconds", type=float, default=600, help="no level is begun later")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", tempfile.gettempdir())))
    asked = parser.parse_args()
    if asked.stages and not asked.config:
        parser.error("--config is needed to measure")
    until = time.monotonic() + asked.seconds
    asked.out.mkdir(parents=True, exist_ok=True)
    random.seed(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    rows = [row for file in asked.rows for row in json.loads(file.read_text())]
    try:
        if not asked.stages:
            return 0
        return measure(Ladder(asked.config, asked.out, asked.objective, until, Busy(), rows), asked.stages)
    finally:
        # Also of a run that was cut short: SIGTERM becomes an exit.
        write(rows, asked)


if __name__ == "__main__":
    sys.exit(main())
