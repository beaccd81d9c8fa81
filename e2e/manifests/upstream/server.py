"""A model that another server has: chats over TLS, for who has the key.

Asked "What is the PROPERTY of ENTITY?" it calls the tool `lookup`, and answers with the first word of its instructions
and what the tool gave. Everything else it answers with "ok".
"""

import json
import os
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = os.environ["KEY"]


def delta(messages: list[dict], tools: list[dict]) -> dict:
    """What the model says next."""
    last = messages[-1]
    if last["role"] == "tool":
        instructions = [message["content"] for message in messages if message["role"] in ("system", "developer")]
        return {"content": f"{' '.join(instructions).split(' ')[0]} {last['content']}"}
    words = str(last["content"]).rstrip("?").split(" ")
    if not tools or len(words) != 6:
        return {"content": "ok"}
    arguments = json.dumps({"entity": words[5], "property": words[3]})
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": arguments}}
    return {"tool_calls": [call]}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def is_known(self) -> bool:
        if self.headers.get("authorization") == f"Bearer {KEY}":
            return True
        error = {"error": {"message": "Incorrect API key provided", "type": "invalid_request_error"}}
        self.answer(401, "application/json", json.dumps(error).encode())
        return False

    def do_GET(self) -> None:
        if self.is_known():
            models = {"object": "list", "data": [{"id": "stand-in", "object": "model"}]}
            self.answer(200, "application/json", json.dumps(models).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if not self.is_known():
            return
        said = delta(body["messages"], body.get("tools") or [])
        end = "tool_calls" if "tool_calls" in said else "stop"
        choices = [
            {"index": 0, "delta": {"role": "assistant", **said}, "finish_reason": None},
            {"index": 0, "delta": {}, "finish_reason": end},
        ]
        usage = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
        chunks = [{"id": "1", "object": "chat.completion.chunk", "choices": [choice]} for choice in choices]
        chunks.append({"id": "1", "object": "chat.completion.chunk", "choices": [], "usage": usage})
        events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        self.answer(200, "text/event-stream", events.encode())


def main() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
    server = ThreadingHTTPServer(("", 8443), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


main()
