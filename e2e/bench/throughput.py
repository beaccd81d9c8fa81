#!/usr/bin/env python3
"""Measures how many runs a second agents get from the agent runtime's binary, beside what model and tools allow.

So many agents ask at once, each again when it was answered. A run has four turns of the model and three tool calls in
between, of fixed times (`mock.py`). Without any cost of the runtime's, agents divided by a run's time is their rate.
Agents begin one after the other over a run's time, so that runs end evenly, and the first runs are not counted.
"""

import argparse
import asyncio
import json
import os
import pathlib
import platform
import resource
import subprocess
import sys
import tempfile
import time

import aiohttp

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))

from load import ASK  # noqa: E402
from mock import ANSWER, CALLS  # noqa: E402
from run import free_port, start_runtime  # noqa: E402
from runtime import cpu_seconds, resident_mb  # noqa: E402

# Processes that answer, and that ask: so many agents each at most.
AGENTS_OF_A_PROCESS = 128


async def agents(origin: str, count: int, first: int, total: int, run_seconds: float, begin: float, end: float) -> None:
    """Some of the agents: prints how many of their runs ended in the time that counts, and in which times."""
    took = []
    patience = aiohttp.ClientTimeout(600)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=patience) as session:

        async def agent(number: int) -> None:
            await asyncio.sleep(begin - 2 * run_seconds + run_seconds * number / total - time.time())
            while (asked := time.time()) < end:
                text = await ASK["run"](session, origin)
                assert text.strip() == ANSWER.strip(), text
                if begin <= (now := time.time()) < end:
                    took.append(now - asked)

        await asyncio.gather(*[agent(number) for number in range(first, first + count)])
    print(json.dumps(took))


def measure(options, count: int, folder: pathlib.Path) -> dict:
    run_seconds = (CALLS + 1) * options.turn + CALLS * options.tool
    port, shares = free_port(), -(-count // AGENTS_OF_A_PROCESS)
    mocks = [subprocess.Popen([sys.executable, HERE / "mock.py", str(port), str(options.turn), str(options.tool)])
             for _ in range(shares)]
    mock = f"http://127.0.0.1:{port}"
    schema = {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}
    http = {"url": f"{mock}/tool/{{n}}", "parameters": [{"name": "n"}], "idempotent": True,
            "maxInFlight": min(count, 1024)}
    tool = {"name": "lookup", "description": "A fact.", "inputSchema": schema, "kind": {"http": http}}
    try:
        # The last mock serves once imports are done; the runtime's own warm-up then waits for one of them.
        time.sleep(2)
        config = {"agentName": "agent", "maxInFlight": 2 * count, "tools": [tool]}
        runtime, origin = start_runtime(options.binary, mock, folder, config)
        try:
            begin = time.time() + 3 + 2 * run_seconds
            end = begin + run_seconds * options.runs
            askers = []
            for first in range(0, count, AGENTS_OF_A_PROCESS):
                share = min(AGENTS_OF_A_PROCESS, count - first)
                asked = [origin, share, first, count, run_seconds, begin, end]
                command = [sys.executable, __file__, "--ask", *map(str, asked)]
                askers.append(subprocess.Popen(command, stdout=subprocess.PIPE))
            time.sleep(max(begin - time.time(), 0))
            before = cpu_seconds(runtime.pid)
            time.sleep(max(end - time.time(), 0))
            used = cpu_seconds(runtime.pid) - before
            took = sorted(seconds for asker in askers for seconds in json.loads(asker.communicate()[0]))
            resident = resident_mb(runtime.pid)
        finally:
            runtime.kill()
            runtime.wait()
    finally:
        for process in mocks:
            process.kill()
            process.wait()
    bound, rate = count / run_seconds, len(took) / (end - begin)
    return {"agents": count, "bound": bound, "rate": rate, "share": rate / bound, "p50": took[len(took) // 2],
            "p99": took[int(len(took) * 0.99)], "cpuMs": used * 1e3 / len(took), "cores": used / (end - begin),
            "resident": resident}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path)
    parser.add_argument("--agents", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--turn", type=float, default=1.0, help="seconds of a turn of the model")
    parser.add_argument("--tool", type=float, default=0.2, help="seconds of a tool call")
    parser.add_argument("--runs", type=int, default=4, help="runs of each agent that count")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ask", nargs=7, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ask:
        origin, count, first, total, *times = options.ask
        return asyncio.run(agents(origin, int(count), int(first), int(total), *map(float, times)))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(65_536, hard), hard))
    version = subprocess.run([options.binary, "--version"], check=True, stdout=subprocess.PIPE, text=True)
    print(f"{version.stdout.strip()}, Python {platform.python_version()}, {os.cpu_count()} cores; "
          f"turns of {options.turn} s, tools of {options.tool} s, {options.rounds} rounds; "
          f"load before {os.getloadavg()[0]:.2f}.\n")
    columns = ["agents", "runs/s, of what model and tools allow", "share", "a run, p50, p99", "CPU-ms a run, cores",
               "resident"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for count in options.agents:
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                found = measure(options, count, pathlib.Path(folder))
            print(f"| {count} | {found['rate']:.2f} of {found['bound']:.2f} | {found['share']:.1%} "
                  f"| {found['p50']:.2f} s, {found['p99']:.2f} s | {found['cpuMs']:.1f}, {found['cores']:.2f} "
                  f"| {found['resident']:.0f} MB |", flush=True)


if __name__ == "__main__":
    main()
