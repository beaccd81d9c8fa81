"""What the pods say that they counted: one server that answers for all of them, by the address it is asked at.

Every pod reports the last hour, as if it had served for that long: in each window of ten seconds the same runs, of
about a second, without errors. A pod that is marked silent takes connections in and never answers.
"""

import asyncio
import collections
import json
import time

WINDOW_S = 10
RING = 360
PORT = 9464
METRICS = [
    ("AgentRunLatency", "Run", 1_000_000),
    ("ModelTime", "Run", 700_000),
    ("ToolTime", "Run", 200_000),
    ("RequestLatency", "Request", 300_000),
    ("RequestTimeToFirstToken", "Request", 60_000),
    ("InterTokenLatency", "Request", 9_000),
    ("ModelCallsPerRun", "Run", 4),
    ("OutputTokensPerRun", "Run", 180),
    ("TimeToFirstToken", "Run", 800_000),
]
RUNS = 40


def bucket(value):
    """floor(32 * log2(value)), exactly: 32nd powers are compared as integers."""
    whole = value.bit_length() - 1
    low, high = 32 * whole, 32 * whole + 31
    power = value**32
    while low < high:
        middle = (low + high + 1) // 2
        if power >= 1 << middle:
            low = middle
        else:
            high = middle - 1
    return low


def metric_window(metric, unit, typical, window):
    counts = collections.Counter()
    for run in range(RUNS):
        factor = 60 + (run * 37 + window * 11) % 90
        counts[bucket(max(1, typical * factor // 100))] += 1
    return {
        "metric": metric, "unit": unit, "started": RUNS, "newSessions": RUNS, "inFlight": 0, "count": RUNS,
        "errors": 0, "sumMicroseconds": typical * RUNS, "buckets": sorted(map(list, counts.items())),
    }


class Evidence:
    """Windows by their ids, which are alike for all pods, and who asked for them."""

    def __init__(self):
        self.windows, self.pods, self.silent = {}, {}, set()
        self.asked = collections.defaultdict(list)
        self.whole, self.bytes, self.answers = 0, 0, 0

    def window(self, number):
        if number not in self.windows:
            metrics = [metric_window(*metric, number) for metric in METRICS]
            success = {"metric": "RunSuccess", "unit": "Run", "started": RUNS, "count": RUNS, "errors": 0}
            load = {"runMicroseconds": RUNS * 1_000_000, "modelRequestMicroseconds": RUNS * 700_000}
            window = {"id": number, "metrics": [*metrics, success], "load": load}
            self.windows[number] = json.dumps(window, separators=(",", ":"))
        return self.windows[number]

    def answer(self, address, after):
        pod = self.pods.get(address)
        if pod is None:
            return None
        now = time.time()
        self.asked[address].append(now)
        end = int(now) // WINDOW_S
        first = max(after + 1, end - RING)
        self.whole += after == 0
        head = json.dumps({"version": 2, "revision": pod["revision"], "pod": pod["name"], "startedAt": pod["started"]})
        body = ",".join(self.window(number) for number in range(first, end))
        text = f'{head[:-1]}, "windows": [{body}]}}'.encode()
        self.answers, self.bytes = self.answers + 1, self.bytes + len(text)
        return text

    async def client(self, reader, writer):
        address = writer.get_extra_info("sockname")[0]
        try:
            while line := await reader.readline():
                while (await reader.readline()).strip():
                    pass
                if address in self.silent:
                    self.asked[address].append(time.time())
                    await asyncio.sleep(3600)
                path = line.decode().split(" ")[1]
                _, _, after = path.partition("after=")
                body = self.answer(address, int(after or 0))
                status = "200 OK" if body is not None else "404 Not Found"
                body = body or b""
                head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def serve(self):
        server = await asyncio.start_server(self.client, "0.0.0.0", PORT, backlog=1024)
        async with server:
            await server.serve_forever()
