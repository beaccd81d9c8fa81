#!/usr/bin/env python3
"""Measures what the agent runtime's binary costs beside others, in CPU time per unit of work.

Chats without tools, streamed and not, are passed on to a model server: beside SMG. Runs of four model calls and three
tool calls: beside a bare loop of asyncio, and LangGraph. All ask the same model server and tool (`mock.py`), whose cost
is not counted, nor is that of whoever asks (`load.py`). Rounds are interleaved in random order. CPU time is that of a
process and its children, from /proc. Versions and hashes of the others are those of `python.txt`.

CPU time per unit bears a busy machine better than rates do, but not well: this refuses one whose load is above 0.5.
"""

import argparse
import json
import os
import pathlib
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))

from run import free_port, install_python, installed, start_runtime  # noqa: E402

LOCK = HERE / "python.txt"
MAX_LOAD = 0.5
# What is measured, of whom, and how many of it in a round.
WORK = {"chat": ["runtime", "smg"], "stream": ["runtime", "smg"], "run": ["runtime", "asyncio", "langgraph"]}
UNITS = {"chat": "a chat", "stream": "a streamed chat of 32 parts", "run": "a run of 4 model and 3 tool calls"}
# LangGraph takes tens of milliseconds a run.
SHARE = {"langgraph": 20}
TICK = os.sysconf("SC_CLK_TCK")


def processes(root: int) -> list[int]:
    """A process and all that descend from it."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [root]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found


def cpu_seconds(root: int) -> float:
    def of(process: int) -> int:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    return sum(of(process) for process in processes(root)) / TICK


def resident_mb(root: int) -> float:
    def of(process: int) -> int:
        lines = pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:")))

    return sum(of(process) for process in processes(root)) * 1024 / 1e6


class Bench:
    """The servers that are measured, and how."""

    def __init__(self, binary: pathlib.Path, python: pathlib.Path, folder: pathlib.Path, options) -> None:
        self.python, self.options, self.started = python, options, []
        self.mock = f"http://127.0.0.1:{self.listen([python, HERE / 'mock.py', '{port}'], '/health')[1]}"
        schema = {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}
        http = {"url": f"{self.mock}/tool/{{n}}", "parameters": [{"name": "n"}], "idempotent": True}
        tool = {"name": "lookup", "description": "A fact.", "inputSchema": schema, "kind": {"http": http}}
        config = {"agentName": "agent", "maxInFlight": 4 * options.at_once}
        servers = {}
        for name, tools in {"chat": [], "run": [tool]}.items():
            (folder / name).mkdir()
            process, origin = start_runtime(binary, self.mock, folder / name, {**config, "tools": tools})
            self.started.append(process)
            servers[name] = (process.pid, origin)
        servers["stream"] = servers["chat"]
        self.of_runtime = servers
        smg = [python.parent / "smg", "launch", "--host", "127.0.0.1", "--port", "{port}", "--policy", "round_robin",
               "--worker-urls", self.mock, "--prometheus-port", str(free_port()), "--log-level", "error"]
        process, port = self.listen(smg, "/v1/models")
        self.of_smg = (process.pid, f"http://127.0.0.1:{port}")

    def listen(self, command: list, path: str) -> tuple[subprocess.Popen, int]:
        """Starts a server, and waits until it answers."""
        port = free_port()
        command = [str(part).format(port=port) for part in command]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.started.append(process)
        for _ in range(1_200):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5):
                    return process, port
            except OSError:
                if process.poll() is not None:
                    break
                time.sleep(0.05)
        raise SystemExit(f"{command[0]} did not begin to serve")

    def server(self, system: str, work: str) -> tuple[int, str]:
        return self.of_runtime[work] if system == "runtime" else self.of_smg

    def load(self, work: str, origin: str, count: int) -> None:
        command = [self.python, HERE / "load.py", work, origin, str(count), str(self.options.at_once)]
        subprocess.run(command, check=True)

    def measure(self, system: str, work: str) -> float:
        """CPU milliseconds for one unit of work."""
        count = max(self.options.count // SHARE.get(system, 1), 1)
        if system in ("asyncio", "langgraph"):
            command = [self.python, HERE / "agents.py", system, self.mock, str(count), str(self.options.at_once)]
            used = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            return used["seconds"] * 1e3 / count
        process, origin = self.server(system, work)
        self.load(work, origin, max(count // 10, self.options.at_once))
        before = cpu_seconds(process)
        self.load(work, origin, count)
        return (cpu_seconds(process) - before) * 1e3 / count

    def stop(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()


def versions(python: pathlib.Path, binary: pathlib.Path) -> str:
    asked = "smg langgraph langchain langchain-openai aiohttp".split()
    shown = subprocess.run([python, "-m", "pip", "freeze"], check=True, stdout=subprocess.PIPE, text=True).stdout
    others = [line for line in shown.splitlines() if line.partition("==")[0] in asked]
    ours = subprocess.run([binary, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True)
    return ", ".join([f"{ours} ({commit.stdout.strip()})", *others, f"Python {platform.python_version()}"])


def report(figures: dict, resident: dict) -> None:
    print("| work | system | CPU-ms, median (least to most) | of the agent runtime's |")
    print("|---|---|---|---|")
    for work, systems in WORK.items():
        ours = statistics.median(figures[work, "runtime"])
        for system in systems:
            values = figures[work, system]
            middle = statistics.median(values)
            shown = f"{middle:.3f} ({min(values):.3f} to {max(values):.3f})"
            print(f"| {UNITS[work]} | {system} | {shown} | {middle / ours:.2f} |")
    print()
    print("| system | resident when idle | after the work |")
    print("|---|---|---|")
    for system, (idle, after) in resident.items():
        print(f"| {system} | {idle:.0f} MB | {after:.0f} MB |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=4_000, help="units of work of a round; of LangGraph a twentieth")
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--anyway", action="store_true", help="on a busy machine too: the figures are of no use")
    options = parser.parse_args()
    python = installed(options.cache, LOCK, install_python(LOCK)) / "bin/python"
    load = os.getloadavg()[0]
    if load > MAX_LOAD and not options.anyway:
        raise SystemExit(f"the machine is busy: its load is {load:.2f}, and at most {MAX_LOAD} is good for figures")
    figures = {(work, system): [] for work, systems in WORK.items() for system in systems}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options.binary, python, pathlib.Path(folder), options)
        try:
            servers = {"runtime": bench.of_runtime["run"][0], "smg": bench.of_smg[0]}
            # Whatever a server does after its start is done then.
            time.sleep(5)
            idle = {name: resident_mb(process) for name, process in servers.items()}
            order = random.Random(options.seed)
            for number in range(options.rounds):
                pairs = list(figures)
                order.shuffle(pairs)
                for work, system in pairs:
                    figures[work, system].append(bench.measure(system, work))
                print(f"round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.2f}", file=sys.stderr)
            resident = {name: (idle[name], resident_mb(process)) for name, process in servers.items()}
        finally:
            bench.stop()
    print(f"{versions(python, options.binary)}; {os.cpu_count()} cores, {platform.machine()}; {options.count} of each in "
          f"{options.rounds} rounds, {options.at_once} at once; load before {load:.2f}.\n")
    report(figures, resident)


if __name__ == "__main__":
    main()
