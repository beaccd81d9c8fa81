#!/usr/bin/env python3
"""Runs the agent runtime's binary with servers of MCP's own Python SDK, in both of its major versions.

Version 2 speaks revision 2026-07-28, version 1 the ones before it, with a handshake. Their versions and hashes are those
of `e2e/clients/python.txt` and `sdk-1.txt`. The engine is the stand-in of the stock clients: it calls the tool that a
question names.
"""

import argparse
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))

import engine  # noqa: E402
from run import free_port, install_python, installed, start_runtime  # noqa: E402

# Name, lock file, and the server's options. Version 1 says that it announces no changes.
SERVERS = [
    ("SDK 2, streams", "python.txt", []),
    ("SDK 2, JSON", "python.txt", ["json"]),
    ("SDK 1, streams and sessions", "sdk-1.txt", []),
    ("SDK 1, JSON and sessions", "sdk-1.txt", ["json"]),
    ("SDK 1, JSON without sessions", "sdk-1.txt", ["json", "stateless"]),
    ("SDK 2, standard input", "python.txt", ["stdio"]),
    ("SDK 1, standard input", "sdk-1.txt", ["stdio"]),
]


def reply(prompt: str, _is_guided: bool) -> str:
    """Calls the tool that the question names, once."""
    question = prompt.rpartition("<|im_start|>user\nCall ")[2]
    called = re.match(r"(\w+) (\{.*\})", question)
    if called is None or "<tool_response>" in question:
        return "Done."
    return engine.CALL % called.groups()


def start_server(binary: pathlib.Path, python: pathlib.Path, place, options: list[str], log) -> subprocess.Popen:
    """Starts a server at a port, or the bridge to one at a socket, and waits until it listens."""
    if isinstance(place, pathlib.Path):
        bridge = [binary, "mcp-bridge", "--socket", place, "--"]
        command = [*bridge, python, HERE / "server.py", "stdio"]
        family, address = socket.AF_UNIX, str(place)
    else:
        command = [python, HERE / "server.py", str(place), *options]
        family, address = socket.AF_INET, ("127.0.0.1", place)
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    for _ in range(400):
        try:
            with socket.socket(family) as client:
                client.connect(address)
            return process
        except OSError:
            time.sleep(0.05)
    process.kill()
    raise SystemExit("the server did not begin to listen")


def call(origin: str, tool: str, arguments: dict) -> dict:
    """What the model reads after it has called a tool."""
    body = json.dumps({"input": f"Call {tool} {json.dumps(arguments)}"}).encode()
    request = urllib.request.Request(f"{origin}/v1/runs", body, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            calls = json.load(response)["steps"][0]["toolCalls"]
    except urllib.error.HTTPError as error:
        # The model calls a tool that it was not shown.
        calls = [{"status": str(error.code)}]
    return calls[0] if calls else {"status": "no call was made"}


def check(origin: str, restart, announces: bool):
    """Each thing that was tried, and what was wrong with it."""

    def expect(name: str, tool: str, arguments: dict, status: str, words: str):
        found = call(origin, tool, arguments)
        text = found.get("observation", "")
        is_right = found["status"] == status and words in text
        return name, "" if is_right else f"{found['status']}: {text}"

    yield expect("structured result", "home_weather", {"city": "Bern"}, "ok", '"degrees": 7')
    yield expect("typed arguments", "home_weather", {"city": "Bern", "days": 3}, "ok", '"days": 3')
    yield expect("text", "home_echo", {"text": "Grüße 🌍"}, "ok", "Grüße 🌍")
    yield expect("progress", "home_work", {"steps": 3}, "ok", "3 steps")
    yield expect("tool's error", "home_fail", {"reason": "no such city"}, "error", "no such city")
    yield expect("list that grows", "home_grow", {}, "ok", "grown")
    if announces:
        for _ in range(200):
            name, wrong = expect("announced tool", "home_grown", {}, "ok", "it grew")
            if not wrong:
                break
            time.sleep(0.05)
        yield name, wrong
    restart()
    yield expect("restarted server", "home_echo", {"text": "again"}, "ok", "again")


def try_server(binary: pathlib.Path, python: pathlib.Path, options: list[str], announces: bool, folder: pathlib.Path):
    """Runs an agent with one server."""
    engine.reply = reply
    is_bridged = options == ["stdio"]
    place = folder / "socket" if is_bridged else free_port()
    with (folder / "server.log").open("w") as log:
        servers = [start_server(binary, python, place, options, log)]
        server = {"name": "home", "prefix": "home_", "timeoutMilliseconds": 10_000}
        if is_bridged:
            server |= {"url": "http://localhost/mcp", "socket": str(place)}
        else:
            server |= {"url": f"http://127.0.0.1:{place}/mcp"}
        process, origin = start_runtime(binary, engine.start(), folder, {"mcpServers": [server]})

        def restart() -> None:
            servers[0].kill()
            servers[0].wait()
            servers[0] = start_server(binary, python, place, options, log)

        try:
            yield from check(origin, restart, announces)
        finally:
            process.terminate()
            process.wait(timeout=20)
            servers[0].kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    options = parser.parse_args()
    locks = {"python.txt": HERE.parent / "clients/python.txt", "sdk-1.txt": HERE / "sdk-1.txt"}
    python = {name: installed(options.cache, lock, install_python(lock)) / "bin/python" for name, lock in locks.items()}
    wrong = 0
    for name, lock, flags in SERVERS:
        with tempfile.TemporaryDirectory() as folder:
            for tried, problem in try_server(
                options.binary, python[lock], flags, lock == "python.txt", pathlib.Path(folder)
            ):
                print(f"{name}: {tried}: {problem or 'passes'}", flush=True)
                wrong += bool(problem)
            if wrong:
                print((pathlib.Path(folder) / "log").read_text()[-4_000:])
    if wrong:
        raise SystemExit(f"{wrong} do not pass")


if __name__ == "__main__":
    main()
