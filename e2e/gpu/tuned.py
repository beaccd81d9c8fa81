"""The last rung of ladder.py: which engine and level Slipway chooses among all that vLLM's stages measured.

Engines are those that backend VLLM makes of an AgentDeployment whose `search` has

    precision: [BF16, FP8]
    kvCachePrecision: [Auto, FP8]
    maxBatchSize: [256]
    maxNumTokens: [8192, 2048]

and levels are its `concurrency`. The rows become a Profile, and `slipway-analysis what-if` chooses of it: judged and
ranked by the operator's own code.

Why these values, for short turns of many agents at once:

- levels between the ladder's: its steps double, so the objective is missed by far one step after it was met;
- a KV cache in FP8: of 160 agents a step reads more bytes of the cache than of the weights;
- 2,048 tokens in an iteration: running answers then wait for a short piece of the new prompts, not for all of them.

`maxBatchSize` stays above all levels, for fewer sequences would leave agents waiting. Speculation is left out: it is no
axis, and how much of it is accepted depends on the text, which random weights do not write.
"""
import itertools
import json
import math
import statistics
import subprocess
from dataclasses import dataclass
from pathlib import Path

from behind_runtime import MAX_NUM_SEQS

# Agents at once, between 128 and 256 of the ladder. Seven, so that halving finds the last that meets an objective in
# three measurements.
LEVELS = range(144, 256, 16)
# Of each agent: enough to bound a p95.
RUNS = 2
WARM_UP = 128
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
CONFIDENCE = 0.95
STAGE = "tuned"
CONFIGURATION = "default"
# Version of the definitions of metrics (crds/src/v1alpha1/profile/definitions.rs).
DEFINITIONS = 2


@dataclass(frozen=True)
class Engine:
    """A point of the build axes. The defaults are vLLM's own on GPUs with 70 GiB or more, and Slipway's."""

    precision: str
    kv_cache: str = "Auto"
    tokens: int = 8192

    @property
    def name(self) -> str:
        """As the operator names an engine of these axes."""
        return f"{self.precision.lower()}-kv{self.kv_cache.lower()}-t{self.tokens}"

    def options(self) -> tuple:
        """What operator/backends/src/vllm writes for these axes, beside what start_vllm gives every server."""
        quantization = ("--quantization", "fp8") if self.precision == "FP8" else ()
        kv_cache = "fp8" if self.kv_cache == "FP8" else "auto"
        return ("--kv-cache-dtype", kv_cache, "--max-num-batched-tokens", self.tokens, *quantization)

    def profiled(self) -> dict:
        axes = {"precision": self.precision, "kvCachePrecision": self.kv_cache, "maxBatchSize": MAX_NUM_SEQS,
                "maxNumTokens": self.tokens}
        return {"name": self.name, "displayName": self.name, "axes": axes, "noBuild": "VLLMOpenAI"}


# The first engine of the last stage is that of `fp8`, at other levels.
ENGINES = {
    "bf16": [Engine("BF16")],
    "fp8": [Engine("FP8")],
    STAGE: [Engine("FP8"), Engine("FP8", "FP8"), Engine("FP8", "FP8", 2048), Engine("FP8", "Auto", 2048)],
}


def engine_of(row: dict) -> str:
    """The engine of a row. Earlier rows do not name it, for their stages have one each."""
    return row.get("engine") or ENGINES[row["stage"]][0].name


def bounded(ordered: list[float], share: float) -> tuple[float, float, float | None]:
    """A percentile with its one-sided bounds by order statistics, as operator/analysis/src/slo/bounds.rs has them."""
    count = len(ordered)

    def chance(below: int) -> float:
        ways = math.lgamma(count + 1) - math.lgamma(below + 1) - math.lgamma(count - below + 1)
        return math.exp(ways + below * math.log(share) + (count - below) * math.log(1 - share))

    at_most = list(itertools.accumulate(chance(below) for below in range(count)))
    ranks = list(zip(ordered, at_most, strict=True))
    upper = next((value for value, share_below in ranks if share_below >= CONFIDENCE), None)
    lower = max((value for value, share_below in ranks if 1 - share_below >= CONFIDENCE), default=0.0)
    at = (count - 1) * share
    below, above = ordered[math.floor(at)], ordered[math.ceil(at)]
    point = max(below + (above - below) * (at - math.floor(at)), lower)
    return point if upper is None else min(point, upper), lower, upper


def latency(percentile: str, seconds: list[float]) -> dict:
    point, lower, upper = bounded(seconds, PERCENTILES[percentile])
    found = {"metric": "AgentRunLatency", "percentile": percentile, "microseconds": round(point * 1e6),
             "lower": math.floor(lower * 1e6)}
    return found if upper is None else found | {"upper": math.ceil(upper * 1e6)}


def measurement(row: dict, tokens_of_run: int, rounds: int) -> dict:
    """A row of a Profile. One that has been measured before is a repetition: the middle one of all counts."""
    purpose = {"purpose": "Repeat", "round": rounds} if rounds else {"purpose": "Explore"}
    gpu = {"gpu": {"utilizationPercent": round(statistics.mean(row["busy"]))}} if row["busy"] else {}
    return purpose | gpu | {
        "engine": engine_of(row),
        "configuration": CONFIGURATION,
        "level": row["agents"],
        # The Profile has no objectives, so nothing is missed. The question has one, and what-if judges by it.
        "verdict": "Feasible",
        "count": row["runs"],
        "errors": 0,
        "milliseconds": round(row["took"] * 1e3),
        "perKilosecond": round(row["runs"] / row["took"] * 1e3),
        "latencies": [latency(percentile, row["seconds"]) for percentile in PERCENTILES],
        "outputTokens": row["runs"] * tokens_of_run,
        "gpuMilliseconds": round(row["took"] * 1e3),
        "definitions": DEFINITIONS,
    }


def measurements(rows: list[dict], tokens_of_run: int) -> list[dict]:
    seen: dict[tuple, int] = {}
    found = []
    for row in rows:
        point = (engine_of(row), row["agents"])
        found.append(measurement(row, tokens_of_run, seen.get(point, 0)))
        seen[point] = seen.get(point, 0) + 1
    return found


def device_of(rows: list[dict]) -> str | None:
    """The GPU model of rows. Earlier rows do not name it."""
    devices = sorted({row["device"] for row in rows if "device" in row})
    if len(devices) > 1:
        raise SystemExit(f"rows of {' and '.join(devices)}: a Profile is of one GPU model, so give rows of one")
    return devices[0] if devices else None


def profile(rows: list[dict], traffic: dict) -> dict | None:
    """The rows of vLLM's stages as a campaign's record, if there are any. `traffic` is `workloads[].synthetic`."""
    rows = [row for row in rows if row["stage"] in ENGINES]
    device = device_of(rows)
    if not rows:
        return None
    found = measurements(rows, (traffic["toolCalls"] + 1) * traffic["outputTokens"])
    measured = {row["engine"] for row in found}
    engines = {engine.name: engine.profiled() for stage in ENGINES.values() for engine in stage}
    selector = {"nvidia.com/gpu.product": device.replace(" ", "-")} if device else {}
    inputs = {
        "engines": [engine for name, engine in engines.items() if name in measured],
        "configurations": [{"name": CONFIGURATION, "settings": {}}],
        "levels": sorted({row["level"] for row in found}),
        "driver": "AgentRun",
        "synthetic": traffic,
        "objectives": [],
        "replicas": 1,
        "optimizeFor": "Throughput",
        "budget": {"gpuHours": "1", "measurements": len(found)},
        "agent": {"maxOutputTokens": traffic["outputTokens"]},
        "placement": {"tritonImage": "none: vLLM of the machine", "nodeSelector": selector,
                      "tritonResources": {"limits": {"nvidia.com/gpu": "1"}}},
    }
    return {"apiVersion": "slipway.dev/v1alpha1", "kind": "Profile", "metadata": {"name": "ladder"},
            "spec": {"agentDeployment": "ladder", "inputHash": "ladder", "inputs": inputs},
            "status": {"rows": len(found), "measurements": found}}


def question(file: Path, objective: float) -> list[str]:
    return ["what-if", "--profile", str(file), "--objective", f"AgentRunLatency:p95={objective * 1e3:.0f}ms"]


def answer(analysis: Path, file: Path, objective: float) -> dict:
    """What Slipway's selection chooses of a Profile."""
    asked = subprocess.run([analysis, *question(file, objective)], capture_output=True, text=True, check=False)
    if asked.returncode:
        raise SystemExit(f"{file} is not answered: {asked.stderr.strip()}")
    return json.loads(asked.stdout)


def rate(found: dict) -> float | None:
    """Runs a second of the choice."""
    return found["choice"]["perKilosecond"]["value"] / 1e3 if found.get("choice") else None


def words(found: dict, rows: list[dict], best: dict[str, float | None]) -> str:
    """The choice in sentences. `best` has the runs a second of the stages before."""
    of = f"{sum(row['stage'] in ENGINES for row in rows)} rows, of which {found['candidates']} meet the objective by " \
         "their bounds of 95 %"
    choice = found.get("choice")
    if not choice:
        return f"Slipway chose none of {of}: {found['infeasible']['whatItWouldTake']}."
    said = [f"Slipway chose {choice['engine']} at {choice['level']} agents, out of {of}."]
    if before := [(stage, rate) for stage, rate in best.items() if rate]:
        stage, less = before[-1]
        said.append(f"At the objective it takes {round((1 - less / rate(found)) * 100)} % fewer GPUs than {stage}.")
    return " ".join([*said, f"Its reason: {choice['why']}. Confirm run: {choice['confirmation']}."])
