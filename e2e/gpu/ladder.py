#!/usr/bin/env python3
"""What each step from plain transformers to vLLM in FP8 gains for an agent, on one GPU.

The weights are random, of a given shape, for speed depends on the shape alone. So the model decides nothing: every run
has STEPS turns of NEW_TOKENS tokens, and between two turns a tool that takes TOOL_SECONDS and answers TOOL_TOKENS
tokens. A turn reads all that was before it. Stages:

    blocking      transformers, one agent after another, the GPU waits for tools
    overlapped    transformers, several agents; while one waits for its tool, another generates
    bf16, fp8     vLLM's server, every agent asks for itself

    ladder.py --config FILE [--stages NAME...] [--objective SECONDS] [--seconds N] [--out FOLDER]
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
from pathlib import Path

from behind_runtime import MODEL, Busy, percentile, start_vllm, write_checkpoint

STEPS, NEW_TOKENS, PROMPT_TOKENS, TOOL_TOKENS, TOOL_SECONDS = 5, 48, 300, 60, 0.2
# Agents at once, and the runs of each.
LEVELS = {1: 4, 4: 3, 16: 3, 64: 2, 128: 2, 256: 2}
TRANSFORMERS_LEVELS = {"blocking": {1: 4}, "overlapped": {4: 2}}
STAGES = ["blocking", "overlapped", "bf16", "fp8"]


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


def with_transformers(config: Path, stages: list[str], busy: Busy) -> list[dict]:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(config.read_text())
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
    found = []
    for stage in stages:
        for agents, runs in TRANSFORMERS_LEVELS[stage].items():
            seen = len(busy.samples)
            asks, waits = (generate_here, blocks) if stage == "blocking" else (generate, asyncio.sleep)
            row = asyncio.run(level(asks, agents, runs, waits))
            found.append(row | {"stage": stage, "busy": busy.samples[seen:]})
            show(found[-1])
    del model
    torch.cuda.empty_cache()
    return found


async def asked_of_vllm(origin: str, stage: str, busy: Busy, until: float, found: list[dict]) -> None:
    import aiohttp

    patience = aiohttp.ClientTimeout(600)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=patience) as session:

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

        await level(generate, 4, 1)
        for agents, runs in LEVELS.items():
            if time.monotonic() > until:
                break
            seen = len(busy.samples)
            found.append(await level(generate, agents, runs) | {"stage": stage, "busy": busy.samples[seen:]})
            show(found[-1])


def with_vllm(config: Path, stage: str, out: Path, busy: Busy, until: float, found: list[dict]) -> None:
    with tempfile.TemporaryDirectory() as name:
        write_checkpoint(config, Path(name))
        folder = out / stage
        folder.mkdir(exist_ok=True)
        server, origin = start_vllm(Path(name), folder, ("--quantization", "fp8") if stage == "fp8" else ())
        try:
            asyncio.run(asked_of_vllm(origin, stage, busy, until, found))
        finally:
            server.terminate()
            server.wait(60)


def show(row: dict) -> None:
    print(f"{row['stage']}, {row['agents']} agents: {row['runs'] / row['took']:.3f} runs/s, p50 "
          f"{percentile(row['seconds'], 50):.2f} s", flush=True)


def report(rows: list[dict], objective: float) -> str:
    columns = ["stage", "agents at once", "runs/s", "tokens/s", "run p50, p95", "first token of a turn p50, p90, p99",
               "GPU busy"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for row in rows:
        rate = row["runs"] / row["took"]
        firsts = [f"{percentile(row['firsts'], at) * 1e3:.0f} ms" for at in (50, 90, 99)] if row["firsts"] else []
        busy = f"{statistics.mean(row['busy']):.0f} %" if row["busy"] else ""
        lines.append(f"| {row['stage']} | {row['agents']} | {rate:.3f} | {rate * STEPS * NEW_TOKENS:,.0f} | "
                     f"{percentile(row['seconds'], 50):.2f}, {percentile(row['seconds'], 95):.2f} s | "
                     f"{', '.join(firsts)} | {busy} |")
    lines += ["", f"The most runs a second of which 95 % take at most {objective:g} s:", "",
              "| stage | runs/s | of the stage before | GPUs for the rate of the last stage |", "|---|---|---|---|"]
    best = {stage: max((row["runs"] / row["took"] for row in rows
                        if row["stage"] == stage and percentile(row["seconds"], 95) <= objective), default=None)
            for stage in dict.fromkeys(row["stage"] for row in rows)}
    reached = [rate for rate in best.values() if rate]
    before = None
    for stage, rate in best.items():
        if rate is None:
            lines.append(f"| {stage} | none | | |")
            continue
        gain = f"{rate / before:.1f} times" if before else ""
        lines.append(f"| {stage} | {rate:.3f} | {gain} | {max(reached) / rate:.1f} |")
        before = rate
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--objective", type=float, default=5.0, help="seconds that 95 %% of the runs may take")
    parser.add_argument("--seconds", type=float, default=600, help="no level is begun later")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", tempfile.gettempdir())))
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    random.seed(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    until, busy, rows = time.monotonic() + asked.seconds, Busy(), []
    print(f"{busy.device}, driver {busy.driver}", flush=True)
    try:
        if plain := [stage for stage in asked.stages if stage in TRANSFORMERS_LEVELS]:
            rows += with_transformers(asked.config, plain, busy)
        for stage in asked.stages:
            if stage not in TRANSFORMERS_LEVELS and time.monotonic() < until:
                with_vllm(asked.config, stage, asked.out, busy, until, rows)
    finally:
        # Also of a run that was cut short: SIGTERM becomes an exit.
        (asked.out / "ladder.json").write_text(json.dumps(rows))
        if rows:
            (asked.out / "ladder.md").write_text(report(rows, asked.objective))
            print(report(rows, asked.objective))


if __name__ == "__main__":
    sys.exit(main())
