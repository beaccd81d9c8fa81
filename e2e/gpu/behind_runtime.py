#!/usr/bin/env python3
"""vLLM asked directly and through the agent runtime: how fast each answers, at several numbers of clients at once.

vLLM serves random weights (`--load-format dummy`) of a given shape, for speed depends on the shape alone. Its tokenizer
is made here: one word is one token. A round asks every arm for the same work in random order: so many chats with
prompts of PROMPT_TOKENS tokens, answers of the same random lengths. Arms are pairs of a server and of how it is asked:
streamed or whole. The ratio of a round is that of its times. `vllm bench serve` asks vLLM too, as a second client.

    behind_runtime.py --config FILE --runtime BINARY [--levels N...] [--rounds N] [--seconds N] [--out FOLDER]
"""
import argparse
import asyncio
import collections
import json
import math
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

PROMPT_TOKENS, LEAST_NEW, MOST_NEW = 300, 64, 192
# Clients at once, and the chats that each asks for in a round.
LEVELS = {1: 6, 4: 4, 16: 6, 64: 4, 256: 4}
MAX_NUM_SEQS = max(LEVELS)
ARMS = [("vllm", "stream"), ("vllm", "whole"), ("runtime", "stream"), ("runtime", "whole")]
CLIENT_PROCESSES = 4
# Cores of the runtime. vLLM has what is left.
RUNTIME_CORES = 3
MODEL = "shape"
TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"
# Student's t for a two-sided interval of 95 %, by degrees of freedom.
T_95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def write_checkpoint(config: Path, folder: Path) -> None:
    """A checkpoint without weights, whose words are tokens."""
    shape = json.loads(config.read_text())
    (folder / "config.json").write_text(json.dumps(shape))
    vocabulary = {f"w{number}": number for number in range(shape["vocab_size"])}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    # Without a token that ends an answer, or is left out of its text: random weights write any.
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class NotReady(SystemExit):
    """A server that did not become ready. Where nobody expects it, the program ends with the end of its log."""


def cores_of(program: str) -> set[int]:
    """The cores of `clients`, `runtime` or `vllm`: with its own, none has more in one round than in the next. All of them
    where there are few."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2 * (CLIENT_PROCESSES + RUNTIME_CORES):
        return set(cores)
    clients, runtime = cores[:CLIENT_PROCESSES], cores[CLIENT_PROCESSES:CLIENT_PROCESSES + RUNTIME_CORES]
    return {"clients": set(clients), "runtime": set(runtime), "vllm": set(cores) - {*clients, *runtime}}[program]


def pinned(cores: set[int] | None) -> Callable[[], None] | None:
    """What a process does before its program begins, which may count its cores."""
    return (lambda: os.sched_setaffinity(0, cores)) if cores else None


def started(command: list, log: Path, ready: str, seconds: int, cores: set[int] | None = None) -> subprocess.Popen:
    """Starts a server, and waits until it is ready."""
    command = [str(part) for part in command]
    process = subprocess.Popen(command, stdout=log.open("w"), stderr=subprocess.STDOUT, preexec_fn=pinned(cores))
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(ready, timeout=5):
                return process
        except OSError:
            time.sleep(0.25)
    process.kill()
    raise NotReady(f"{command[0]} did not become ready:\n{log.read_text()[-3000:]}")


def start_vllm(folder: Path, out: Path, more: tuple[str, ...] = (),
               cores: set[int] | None = None) -> tuple[subprocess.Popen, str]:
    origin = f"http://127.0.0.1:{(port := free_port())}"
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", folder,
               "--served-model-name", MODEL, "--load-format", "dummy", "--generation-config", "vllm",
               "--max-model-len", 4096, "--max-num-seqs", MAX_NUM_SEQS,
               "--gpu-memory-utilization", 0.9, "--port", port, "--host", "127.0.0.1", "--uvicorn-log-level", "warning",
               *more]
    return started(command, out / "vllm.log", f"{origin}/health", 400, cores), origin


def start_runtime(binary: Path, endpoint: str, checkpoint: Path, out: Path) -> tuple[subprocess.Popen, str]:
    api, admin = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    config = {
        "agentName": MODEL,
        "revision": "shape-1",
        "triton": {"endpoint": endpoint, "modelName": MODEL, "dialect": "OpenAi"},
        "chatTemplate": {"folder": str(checkpoint)},
        "maxTokensPerStep": MOST_NEW,
        "maxInFlight": 2 * MAX_NUM_SEQS,
        "warmUp": {"longestPromptCharacters": 16},
    }
    (out / "runtime.json").write_text(json.dumps(config))
    command = [binary, "--config", out / "runtime.json", "--api-address", api, "--admin-address", admin]
    return started(command, out / "runtime.log", f"http://{admin}/readyz", 60, cores_of("runtime")), f"http://{api}"


def chats(seed: str, count: int) -> list[tuple[str, int]]:
    """Prompts and how many tokens answer them. Lengths depend on the number of chats alone: all arms have the same."""
    lengths, words = random.Random(count), random.Random(seed)

    def prompt() -> str:
        return " ".join(f"w{words.randrange(1000, 100_000)}" for _ in range(PROMPT_TOKENS))

    return [(prompt(), lengths.randint(LEAST_NEW, MOST_NEW)) for _ in range(count)]


async def ask(session, origin: str, how: str, prompt: str, tokens: int) -> tuple[float, float, int]:
    """Seconds to the first token, which is the end of an answer that comes whole, and to the end; the tokens."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "max_tokens": tokens, "temperature": 0}
    if how == "stream":
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    begun, first, usage = time.monotonic(), None, None
    async with session.post(f"{origin}/v1/chat/completions", json=body) as response:
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {await response.text()}")
        if how == "whole":
            usage = (await response.json())["usage"]
        else:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    chunk = json.loads(line[6:])
                    usage = chunk.get("usage") or usage
                    if first is None and any(choice["delta"].get("content") for choice in chunk["choices"]):
                        first = time.monotonic() - begun
    took = time.monotonic() - begun
    return first or took, took, usage["completion_tokens"]


async def client_process(origin: str, how: str, seed: str, clients: int, each: int) -> None:
    """One of the processes that ask. It begins at a word on its standard input."""
    import aiohttp

    left = iter(chats(seed, clients * each))
    times = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def client() -> None:
            for prompt, tokens in left:
                times.append(await ask(session, origin, how, prompt, tokens))

        print("ready", flush=True)
        sys.stdin.readline()
        await asyncio.gather(*[client() for _ in range(clients)])
    print(json.dumps(times), flush=True)


def round_of(origin: str, how: str, seed: str, clients: int) -> dict:
    """The work of a round, and the seconds that it took."""
    count = min(CLIENT_PROCESSES, clients)
    command = [sys.executable, __file__, "--ask", origin, how]
    processes = [
        subprocess.Popen([*command, f"{seed}-{number}", str(clients // count), str(LEVELS[clients])], text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=pinned(cores_of("clients")))
        for number in range(count)
    ]
    for process in processes:
        process.stdout.readline()
    begun = time.monotonic()
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    times = [pair for process in processes for pair in json.loads(process.stdout.readline())]
    seconds = time.monotonic() - begun
    for process in processes:
        process.wait()
    return {"seconds": seconds, "chats": len(times), "tokens": sum(pair[2] for pair in times),
            "first": sorted(pair[0] for pair in times), "whole": sorted(pair[1] for pair in times)}


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Busy:
    """The share of time in which a kernel ran, as NVML samples it."""

    def __init__(self) -> None:
        import pynvml

        pynvml.nvmlInit()
        # NVML lists every GPU of the machine, also those that vLLM does not see.
        first = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0] or "0"
        handle = (pynvml.nvmlDeviceGetHandleByIndex(int(first)) if first.isdigit()
                  else pynvml.nvmlDeviceGetHandleByUUID(first))
        self.read = lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
        self.device = str(pynvml.nvmlDeviceGetName(handle))
        self.driver = str(pynvml.nvmlSystemGetDriverVersion())
        self.samples: list[int] = []
        threading.Thread(target=self.sample, daemon=True).start()

    def sample(self) -> None:
        while True:
            self.samples.append(self.read())
            time.sleep(0.1)


def percentile(ordered: list[float], percent: float) -> float:
    return ordered[min(len(ordered) - 1, math.ceil(len(ordered) * percent / 100) - 1)]


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """The geometric mean of paired ratios, and its interval of 95 %."""
    logs = [math.log(ratio) for ratio in ratios]
    middle = statistics.mean(logs)
    if len(logs) < 2:
        return math.exp(middle), 0.0, math.inf
    spread = T_95[min(len(logs) - 1, 9)] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle), math.exp(middle - spread), math.exp(middle + spread)


def bench_serve(origin: str, folder: Path, clients: int, seconds: float) -> float | None:
    """Chats a second, as vLLM's own client sees them."""
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", "openai-chat",
               "--endpoint", "/v1/chat/completions", "--base-url", origin, "--model", MODEL, "--tokenizer", folder,
               "--dataset-name", "random", "--random-input-len", PROMPT_TOKENS,
               "--random-output-len", (LEAST_NEW + MOST_NEW) // 2,
               "--random-range-ratio", 0.5, "--num-prompts", clients * LEVELS[clients], "--max-concurrency", clients,
               "--ignore-eos", "--temperature", 0]
    try:
        shown = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, timeout=seconds, check=False).stdout
    except subprocess.TimeoutExpired:
        return None
    found = re.search(r"Output token throughput \(tok/s\):\s+([\d.]+)", shown)
    if not found:
        print(shown[-1500:], file=sys.stderr)
    return float(found.group(1)) if found else None


def report(rounds: list[dict], busy: dict, second: dict) -> str:
    columns = ["clients", "arm", "tokens/s, median of rounds", "first token p50, p99", "whole p50, p99", "GPU busy",
               "of vLLM's speed"]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for clients in LEVELS:
        of_level = [row for row in rounds if row["clients"] == clients]
        for server, how in ARMS:
            rows = [row for row in of_level if (row["server"], row["how"]) == (server, how)]
            if not rows:
                continue
            tokens = statistics.median(row["tokens"] / row["seconds"] for row in rows)
            first = sorted(value for row in rows for value in row["first"])
            whole = sorted(value for row in rows for value in row["whole"])
            shown = [f"{percentile(values, at) * 1e3:.0f}" for values in (first, whole) for at in (50, 99)]
            ratio = ""
            if server == "runtime":
                raw = {row["round"]: row["tokens"] / row["seconds"] for row in of_level
                       if (row["server"], row["how"]) == ("vllm", how)}
                middle, low, high = interval([row["tokens"] / row["seconds"] / raw[row["round"]] for row in rows])
                # One round has no interval.
                ratio = f"{middle:.3f}" + (f" ({low:.3f} to {high:.3f})" if len(rows) > 1 else "")
            used = busy.get(f"{clients}-{server}-{how}", [])
            share = f"{statistics.mean(used):.0f} %" if used else ""
            lines.append(f"| {clients} | {server}, {how} | {tokens:,.0f} | {shown[0]}, {shown[1]} ms "
                         f"| {shown[2]}, {shown[3]} ms | {share} | {ratio} |")
        if second.get(clients):
            lines.append(f"| {clients} | vllm, `vllm bench serve` | {second[clients]:,.0f} | | | | |")
    return "\n".join(lines)


def measure(asked) -> None:
    until = time.monotonic() + asked.seconds
    asked.out.mkdir(parents=True, exist_ok=True)
    rounds, second, busy_of = [], {}, {}
    # Before the servers: where it fails, nothing is left on the GPU. Its numbers are those of the bus.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    busy = Busy()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_checkpoint(asked.config, folder)
        at = time.monotonic()
        vllm, origin = start_vllm(folder, asked.out, cores=cores_of("vllm"))
        print(f"vLLM ready after {time.monotonic() - at:.0f} s", flush=True)
        runtime, behind = start_runtime(asked.runtime, origin, folder, asked.out)
        try:
            print(f"{busy.device}, driver {busy.driver}", flush=True)
            for server, how in ARMS:
                round_of({"vllm": origin, "runtime": behind}[server], how, f"warm-{server}-{how}", 64)
            order = random.Random(1)
            for number in range(asked.rounds):
                cells = [(clients, *arm) for clients in asked.levels for arm in ARMS]
                # Arms of a level stay together: what drifts in a minute is in all of them.
                cells.sort(key=lambda cell: (cell[0], order.random()))
                for clients, server, how in cells:
                    if time.monotonic() > until:
                        break
                    before, seen = cpu_seconds(runtime.pid), len(busy.samples)
                    asked_of = {"vllm": origin, "runtime": behind}[server]
                    row = round_of(asked_of, how, f"{number}-{server}-{how}", clients)
                    row |= {"round": number, "clients": clients, "server": server, "how": how,
                            "runtimeCpu": cpu_seconds(runtime.pid) - before}
                    busy_of.setdefault(f"{clients}-{server}-{how}", []).extend(busy.samples[seen:])
                    rounds.append(row)
                print(f"round {number + 1} of {asked.rounds}", flush=True)
            for clients in asked.levels:
                if (left := until - time.monotonic()) > 30:
                    second[clients] = bench_serve(origin, folder, clients, left)
        finally:
            (asked.out / "rounds.json").write_text(json.dumps(rounds))
            runtime.kill()
            vllm.terminate()
            vllm.wait(30)
    # A level whose last round lacks an arm is compared by whole rounds alone.
    arms = collections.Counter((row["round"], row["clients"]) for row in rounds)
    rounds = [row for row in rounds if arms[row["round"], row["clients"]] == len(ARMS)]
    table = report(rounds, busy_of, second)
    behind_it = [row for row in rounds if row["server"] == "runtime" and row["clients"] == 64]
    cpu = [row["runtimeCpu"] * 1e3 / row["chats"] for row in behind_it]
    table += f"\n\nThe runtime's CPU time for a chat, 64 at once: {statistics.median(cpu):.2f} ms.\n" if cpu else "\n"
    (asked.out / "table.md").write_text(table)
    print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path)
    parser.add_argument("--runtime", type=Path)
    parser.add_argument("--levels", type=int, nargs="+", choices=LEVELS, default=list(LEVELS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", tempfile.gettempdir())))
    parser.add_argument("--ask", nargs=5, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.ask:
        origin, how, seed, clients, each = asked.ask
        asyncio.run(client_process(origin, how, seed, int(clients), int(each)))
    else:
        measure(asked)


if __name__ == "__main__":
    main()
