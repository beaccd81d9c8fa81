"""A stand-in for vLLM's server, for the matrix of stock clients: it says what the question's words ask for.

It speaks `POST /v1/completions`, whole or with server-sent events, `POST /tokenize` and `GET /health`, as vLLM's server
does, and writes calls as Qwen3 does. `GET /seen` counts answers that nobody waited for.
"""

import json
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOO_LONG = "This model's maximum context length is 64 tokens. However, your request has too many input tokens."
CALL = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'
CITY = '{"name": "Paris", "population": 2100000}'

lock = threading.Lock()
seen = {"cancelled": 0, "requests": 0}
asked_before = set()


def reply(prompt: str, is_guided: bool) -> str:
    """What a model would write after this prompt."""
    # All that was said: results of tools stand in turns of the user's.
    question = prompt.partition("<|im_start|>user\n")[2]
    has_result = "<tool_response>" in question
    if "Write it again" in question or is_guided:
        return CITY
    if "17*23" in question and not has_result:
        return CALL % ("calc", '{"expression": "17*23"}')
    if "17*23" in question:
        return "17*23 is 391."
    if "weather" in question and '"get_weather"' in prompt and not has_result:
        return CALL % ("get_weather", '{"location": "Paris"}' if '"location"' in prompt else '{"city": "Paris"}')
    if "weather" in question:
        return "It is sunny in Paris."
    if "largest city" in question:
        # Agents' frameworks ask for formats by tools of their own too.
        final = re.search(r'"name": "(final_result|City|json)"', prompt)
        return CALL % (final.group(1), CITY) if final else CITY
    if "signature" in question:
        return "Yours, Slipway" if "Sign as Slipway" in prompt else "Yours, nobody"
    if "think" in question:
        return "<think>\nHm, hello.\n</think>\n\nHello there, friend."
    return "Hello there, friend."


class Engine(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_args):
        """Says nothing."""

    def send_json(self, status: int, value) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        with lock:
            self.send_json(200, seen)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        prompt = body["prompt"]
        if self.path == "/tokenize":
            self.send_json(200, {"count": 99, "max_model_len": 64, "tokens": []})
            return
        once = re.search(r"retry-[\w-]+", prompt)
        with lock:
            seen["requests"] += 1
            is_first = bool(once) and once.group() not in asked_before
            asked_before.update([once.group()] if once else [])
        if is_first:
            self.send_json(503, {"error": {"message": "loading", "code": 503}})
        elif "overflow" in prompt:
            self.send_json(400, {"error": {"message": TOO_LONG, "code": 400}})
        elif "break down" in prompt:
            self.send_json(500, {"error": {"message": "EngineCore died", "code": 500}})
        elif body["stream"]:
            self.answer(prompt, body)
        elif "for ever" in prompt:
            self.think_for_ever()
        else:
            parts = self.parts(prompt, body)
            self.send_json(200, self.chunk("".join(parts), len(parts), "stop"))

    @staticmethod
    def parts(prompt: str, body) -> list[str]:
        return re.findall(r"\S+\s*|\s+", reply(prompt, "response_format" in body))

    def think_for_ever(self) -> None:
        """Until nobody waits for the answer any more: then there is nothing left to read of the connection."""
        for _ in range(600):
            try:
                is_over = self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
            except BlockingIOError:
                is_over = False
            except OSError:
                is_over = True
            if is_over:
                with lock:
                    seen["cancelled"] += 1
                break
            time.sleep(0.05)
        self.close_connection = True

    def answer(self, prompt: str, body) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            if "for ever" in prompt:
                self.go_on_for_ever()
                return
            parts = self.parts(prompt, body)
            for count, part in enumerate(parts, 1):
                self.event(self.chunk(part, count, "stop" if count == len(parts) else None))
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            with lock:
                seen["cancelled"] += 1

    def go_on_for_ever(self) -> None:
        for count in range(1, 600):
            self.event(self.chunk("on ", count, None))
            time.sleep(0.05)

    @staticmethod
    def chunk(text: str, count: int, finish):
        details = {"cached_tokens": 3}
        usage = {"prompt_tokens": 11, "completion_tokens": count, "prompt_tokens_details": details}
        return {"choices": [{"index": 0, "text": text, "finish_reason": finish}], "usage": usage}

    def event(self, value) -> None:
        self.wfile.write(f"data: {json.dumps(value)}\n\n".encode())
        self.wfile.flush()


def start() -> str:
    """Serves on a free port of the loopback interface, and gives the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"
