#!/usr/bin/env python3
"""Runs the agent runtime's binary with the OpenTelemetry Collector, and draws what it understood as one trace.

The Collector is built from its own Go modules (`e2e/tools/otel-collector`). It takes spans by OTLP over HTTP, and hands
them on in JSON to this script. The engine is the stand-in of the stock clients; the tool is a service of this script.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))

import engine  # noqa: E402
from run import free_port, start_runtime  # noqa: E402

PARENT = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
CONFIG = """
receivers:
  otlp:
    protocols:
      http: {{endpoint: "127.0.0.1:{port}"}}
exporters:
  otlp_http:
    endpoint: {sink}
    encoding: json
    compression: none
service:
  telemetry:
    metrics: {{level: none}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [otlp_http]}}
"""
# Attributes that the drawing leaves out: every span has them.
COMMON = {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.agent.name"}

lock = threading.Lock()
# What the engine and the tool were told of the trace, and what the Collector handed on.
told: list[tuple[str, str | None]] = []
batches: list[dict] = []


def reply(prompt: str, _is_guided: bool) -> str:
    """Looks up two cities, computes, and answers."""
    results = prompt.partition("<|im_start|>user\n")[2].count("<tool_response>")
    if results == 0:
        cities = [engine.CALL % ("population", json.dumps({"city": city})) for city in ("Bern", "Paris")]
        return "\n".join(cities)
    if results < 3:
        return engine.CALL % ("calc", '{"expression": "2100000/134000"}')
    return "Paris has about 16 times as many people."


class Engine(engine.Engine):
    """The stand-in, which notes what it is told of the trace."""

    def do_POST(self) -> None:
        with lock:
            told.append(("engine", self.headers["traceparent"]))
        super().do_POST()


class Service(BaseHTTPRequestHandler):
    """The tool, and whom the Collector hands spans to."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_args):
        """Says nothing."""

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        with lock:
            told.append(("tool", self.headers["traceparent"]))
        time.sleep(0.02)
        self.answer(b"134000" if "Bern" in self.path else b"2100000")

    def do_POST(self) -> None:
        batch = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with lock:
            batches.append(batch)
        self.answer(b"{}")


def serve(handler) -> str:
    """Serves on a free port of the loopback interface, and gives the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def start_collector(binary: pathlib.Path, folder: pathlib.Path, sink: str) -> tuple[subprocess.Popen, str]:
    """Starts the Collector, and waits until it listens."""
    port = free_port()
    (folder / "collector.yaml").write_text(CONFIG.format(port=port, sink=sink))
    log = (folder / "collector.log").open("w")
    process = subprocess.Popen([binary, "--config", f"file:{folder}/collector.yaml"], stdout=log, stderr=log)
    for _ in range(200):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/")
        except urllib.error.HTTPError:
            return process, f"http://127.0.0.1:{port}"
        except OSError:
            time.sleep(0.05)
    process.kill()
    raise SystemExit(f"the Collector did not begin to listen:\n{(folder / 'collector.log').read_text()}")


def ask(origin: str) -> None:
    """Asks as a client that traces."""
    headers = {"content-type": "application/json", "traceparent": f"00-{PARENT[0]}-{PARENT[1]}-01"}
    body = json.dumps({"model": "support", "messages": [{"role": "user", "content": "How much larger is Paris?"}]})
    request = urllib.request.Request(f"{origin}/v1/chat/completions", body.encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        response.read()


def handed_on(count: int) -> tuple[dict, list[dict]]:
    """The resource and the spans that the Collector handed on, once there are so many."""
    for _ in range(400):
        with lock:
            resources = [resource for batch in batches for resource in batch["resourceSpans"]]
        spans = [span for resource in resources for scope in resource["scopeSpans"] for span in scope["spans"]]
        if len(spans) >= count:
            return attributes(resources[0]["resource"]), spans
        time.sleep(0.05)
    raise SystemExit(f"the Collector handed on {len(spans)} spans in place of {count}")


def attributes(of: dict) -> dict:
    return {pair["key"]: next(iter(pair["value"].values())) for pair in of.get("attributes", [])}


def check(spans: list[dict]) -> None:
    """All spans are of the client's trace, and what engine and tool were told are spans of it."""
    run = [span for span in spans if span["parentSpanId"] == PARENT[1]]
    assert len(run) == 1, "one span is the run's"
    assert {span["traceId"] for span in spans} == {PARENT[0]}, "all are of one trace"
    others = [span for span in spans if span is not run[0]]
    assert {span["parentSpanId"] for span in others} == {run[0]["spanId"]}, "all others are within the run"

    def known(word: str) -> set[str]:
        return {f"00-{span['traceId']}-{span['spanId']}-01" for span in spans if span["name"].startswith(word)}

    heard = {who: {parent for by, parent in told if by == who} for who in ("engine", "tool")}
    assert heard["engine"] == known("chat "), "the engine is told the model calls"
    assert heard["tool"] == known("execute_tool population"), "the tool is told its calls"
    assert "Paris" not in json.dumps(batches), "nothing that was said is in it"


def draw(resource: dict, spans: list[dict]) -> str:
    """The trace as a tree, with milliseconds since its beginning."""
    spans = sorted(spans, key=lambda span: (int(span["startTimeUnixNano"]), -int(span["endTimeUnixNano"])))
    begin = int(spans[0]["startTimeUnixNano"])
    end = max(int(span["endTimeUnixNano"]) for span in spans)
    lines = [f"trace {spans[0]['traceId']} of {resource['service.name']} ({resource['service.version']})"]
    for index, span in enumerate(spans):
        start, stop = [int(span[f"{edge}TimeUnixNano"]) - begin for edge in ("start", "end")]
        first, last = [round(30 * at / (end - begin)) for at in (start, stop)]
        bar = " " * first + "█" * max(last - first, 1)
        branch = "" if index == 0 else "└─ " if index == len(spans) - 1 else "├─ "
        lines.append(f"{branch + span['name']:<27}{start / 1e6:>7.1f} {stop / 1e6:>7.1f} ms |{bar:<31}|")
        shown = {key: value for key, value in attributes(span).items() if key not in COMMON}
        stem = "│  " if 0 < index < len(spans) - 1 else "   "
        lines += [f"{stem}   {key} = {value}" for key, value in shown.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--collector", type=pathlib.Path, required=True)
    options = parser.parse_args()
    engine.reply = reply
    service = serve(Service)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        collector, endpoint = start_collector(options.collector, folder, service)
        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        http = {"url": f"{service}/population/{{city}}", "parameters": [{"name": "city"}], "idempotent": True}
        tools = [
            {"name": "calc", "description": "Evaluates an expression.", "kind": "calculator"},
            {"name": "population", "description": "People in a city.", "inputSchema": schema, "kind": {"http": http}},
        ]
        runtime, origin = start_runtime(
            options.binary, serve(Engine), folder, {"tools": tools, "tracing": {"endpoint": endpoint}}
        )
        try:
            with lock:
                told.clear()
            ask(origin)
            resource, spans = handed_on(7)
            check(spans)
            print(draw(resource, spans))
        finally:
            runtime.kill()
            collector.terminate()
            collector.wait(timeout=20)


if __name__ == "__main__":
    main()
