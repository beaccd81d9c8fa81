"""STAND-IN for the HTTP servers of engines: health, and completions in OpenAI's protocol."""

import json
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from stand_in_engine import Step, generate


class Completions(BaseHTTPRequestHandler):
    """Health and completions."""

    protocol_version = "HTTP/1.1"
    models: list[str] | None = None
    """Its names in requests; where there is none, any will do."""
    batch: AbstractContextManager = nullcontext()
    """What a request waits for until it is in the batch; an engine's limit, if it has one."""

    def steps(self, body: dict) -> Iterator[Step]:
        """The states of one generation."""
        ignores_end = body.get("ignore_eos", False)
        with self.batch:
            yield from generate(body["max_tokens"], body.get("stop") or [], lambda: False, ignores_end=ignores_end)

    def refusal(self, body: dict) -> str | None:
        """Why a request is refused, if it is."""
        return None

    def do_GET(self):
        """Answers once the checkpoint was found."""
        self._answer(200 if self.path == "/health" else 404, b"")

    def do_POST(self):
        """Answers with a completion: as one, or as a stream with an event a token."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path != "/v1/completions" or body["model"] not in (self.models or [body["model"]]):
            message = f"The model `{body.get('model')}` does not exist."
            self._answer(404, json.dumps({"error": {"message": message, "code": 404}}).encode())
            return
        message = self.refusal(body)
        if message is None and body["temperature"] != 0:
            message = "the stand-in takes the likeliest tokens alone"
        if message is not None:
            self._answer(400, json.dumps({"error": {"message": message, "code": 400}}).encode())
            return
        if not body["stream"]:
            *_, last = self.steps(body)
            choice = {"index": 0, "text": last.text, "finish_reason": last.finish_reason}
            self._answer(200, json.dumps({"choices": [choice], "usage": {"completion_tokens": last.tokens}}).encode())
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        tokens = 0
        try:
            seen = 0
            for step in self.steps(body):
                choice = {"index": 0, "text": step.text[seen:], "finish_reason": step.finish_reason}
                seen, tokens = len(step.text), step.tokens
                self._event(json.dumps({"choices": [choice], "usage": {"completion_tokens": tokens}}))
            self._event(json.dumps({"choices": [], "usage": {"completion_tokens": tokens}}))
            self._event("[DONE]")
            self.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            print(f"stand-in: cancelled after {tokens} tokens", flush=True)
            self.close_connection = True

    def _event(self, data):
        event = f"data: {data}\n\n".encode()
        self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        self.wfile.flush()

    def _answer(self, status, body):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(handler: type[Completions], models: list[str] | None, host: str, port: int, batch: int | None = None) -> None:
    """Serves a model until it is ended, by its names or by any, and so many requests at once or any number."""
    handler.models = models
    handler.batch = threading.Semaphore(batch) if batch else nullcontext()
    ThreadingHTTPServer((host, port), handler).serve_forever()
