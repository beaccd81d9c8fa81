#!/usr/bin/env python3
"""Measures how the agent runtime's memory grows over many runs.

Runs have four turns of the model and three tool calls, half of them by `/v1/chat/completions`, half by `/v1/runs`. The
model server, the tool and those who ask are this one process, which answers in few instructions: so a million runs
take minutes, and not hours. Resident memory counts from a first thousand of runs on. It must not grow by more than
`--limit` MiB.
"""

import argparse
import asyncio
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))

from run import start_runtime  # noqa: E402

CALLS = 3
MIB = 1 << 20
ANSWER = "The answer is 42."
USAGE = {"prompt_tokens": 11, "completion_tokens": 2}
HEADERS = {"event": "text/event-stream", "text": "text/plain", "json": "application/json"}


def framed(kind: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {HEADERS[kind]}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def turn(text: str) -> bytes:
    """What a turn of the model is answered with: a piece, its end and its count."""
    pieces = [(text, None), ("", "stop")]
    chunks = [{"choices": [{"index": 0, "text": piece, "finish_reason": end}], "usage": USAGE} for piece, end in pieces]
    return framed("event", b"".join(b"data: %s\n\n" % json.dumps(chunk).encode() for chunk in chunks)
                  + b"data: [DONE]\n\n")


def call(number: int) -> str:
    return f'<tool_call>\n{{"name": "lookup", "arguments": {{"n": "{number}"}}}}\n</tool_call>'


def whole(text: str) -> bytes:
    choices = [{"index": 0, "text": text, "finish_reason": "stop"}]
    return framed("json", json.dumps({"choices": choices, "usage": USAGE}).encode())


TEXTS = [call(number) for number in range(CALLS)] + [ANSWER]
# As a stream, and as one.
TURNS, WHOLE_TURNS = [turn(text) for text in TEXTS], [whole(text) for text in TEXTS]
HEALTH, TOOL = framed("json", b'{"data": []}'), framed("text", b"42")


class Server(asyncio.Protocol):
    """The model server and the tool, as far as the runtime asks them."""

    def connection_made(self, transport) -> None:
        self.transport, self.pending = transport, b""

    def data_received(self, data: bytes) -> None:
        self.pending += data
        while (end := self.pending.find(b"\r\n\r\n")) >= 0:
            head = self.pending[:end].lower()
            length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0] or 0)
            if len(self.pending) < end + 4 + length:
                return
            body, self.pending = self.pending[end + 4 : end + 4 + length], self.pending[end + 4 + length :]
            self.transport.write(self.answer(head, body))

    def answer(self, head: bytes, body: bytes) -> bytes:
        if head.startswith(b"post /v1/completions"):
            turns = TURNS if json.loads(body)["stream"] else WHOLE_TURNS
            return turns[min(body.count(b"<tool_response>"), CALLS)]
        return TOOL if head.startswith(b"get /tool") else HEALTH


def request(path: str, body: dict) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    return head.encode() + data


QUESTION = "What is the answer?"
ASKED = [
    request("/v1/chat/completions", {"model": "support", "messages": [{"role": "user", "content": QUESTION}]}),
    request("/v1/runs", {"input": QUESTION}),
]


async def client(port: int, numbers) -> None:
    """Asks for one run after the other, and checks each answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for number in numbers:
        writer.write(ASKED[number % 2])
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        body = await reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 200") or ANSWER.encode() not in body:
            raise SystemExit(f"a run failed: {head!r} {body[:400]!r}")
    writer.close()


async def ask(port: int, count: int, at_once: int) -> None:
    numbers = iter(range(count))
    await asyncio.gather(*[client(port, numbers) for _ in range(at_once)])


def resident(process: int) -> int:
    lines = pathlib.Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS:"))) * 1024


def config(origin: str, at_once: int) -> dict:
    schema = {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}
    http = {"url": f"{origin}/tool/{{n}}", "parameters": [{"name": "n"}], "idempotent": True}
    tool = {"name": "lookup", "description": "A fact.", "inputSchema": schema, "kind": {"http": http}}
    return {"maxInFlight": 2 * at_once, "tools": [tool]}


async def measure(options, folder: pathlib.Path) -> list[tuple[int, int]]:
    """Runs that were done, and the bytes that were resident then."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Server, "127.0.0.1", 0)
    origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    started = loop.run_in_executor(None, start_runtime, options.binary, origin, folder, config(origin, options.at_once))
    process, api = await started
    try:
        port = int(api.rpartition(":")[2])
        await ask(port, options.first, options.at_once)
        rows = [(0, resident(process.pid))]
        share = options.runs // 10
        for number in range(10):
            await ask(port, share, options.at_once)
            rows.append((share * (number + 1), resident(process.pid)))
            print(f"{rows[-1][0]} runs, {rows[-1][1] / MIB:.1f} MiB", file=sys.stderr, flush=True)
        return rows
    finally:
        process.kill()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=1_000, help="runs before memory counts")
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--limit", type=float, default=24, help="most MiB by which memory may grow")
    options = parser.parse_args()
    version = subprocess.run([options.binary, "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(measure(options, pathlib.Path(folder)))
    growth = (rows[-1][1] - rows[0][1]) / MIB
    print(f"{version.strip()}, {options.binary.stat().st_size / 1e6:.0f} MB; Python {platform.python_version()}, "
          f"{os.cpu_count()} cores; {options.at_once} at once, {time.monotonic() - begin:.0f} s.\n")
    print("| runs | resident, MiB |\n|---|---|")
    for runs, size in rows:
        print(f"| {runs:,} | {size / MIB:.1f} |")
    print(f"\nIt grew by {growth:.1f} MiB in {rows[-1][0]:,} runs.")
    if growth > options.limit:
        raise SystemExit(f"at most {options.limit} MiB may be added")


if __name__ == "__main__":
    main()
