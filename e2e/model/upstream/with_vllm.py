"""Counts exact runs of held-out transcripts on a running `vllm serve`; standard library only.

    vllm serve checkpoints/react-512 --enable-auto-tool-choice --tool-call-parser hermes
    python3 -m upstream.with_vllm --url http://127.0.0.1:8000 --model checkpoints/react-512 --runs 500

ReAct prompts go to /v1/completions with the runtime's stop word, chats to /v1/chat/completions with their tools: calls
and answers are what the server's parser made of the text.
"""

import argparse
import concurrent.futures
import json
import time
import urllib.request

from corpus.chat import Chat
from corpus.episodes import Episode
from corpus.judged import held_out_transcripts

MAX_TOKENS = 200


class Server:
    """A server with OpenAI's protocol."""

    def __init__(self, url: str, model: str) -> None:
        self._url = url
        self._model = model

    def ask(self, path: str, **body) -> dict:
        """Sends a request and returns its first choice."""
        data = json.dumps({"model": self._model, "temperature": 0, "max_tokens": MAX_TOKENS, **body}).encode()
        request = urllib.request.Request(self._url + path, data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.load(response)["choices"][0]

    def react_mistake(self, episode: Episode) -> str | None:
        """Plays an episode and returns its first mistake, if any."""
        for prompt, expected in episode.model_calls():
            text = self.ask("/v1/completions", prompt=prompt, stop=["\n\n"])["text"]
            if text != expected.removesuffix("\n\n"):
                return f"expected {expected!r}, written {text!r}"
        return None

    def chat_mistake(self, chat: Chat, is_streaming: bool) -> str | None:
        """Plays a chat and returns its first mistake, if any."""
        for index, message in enumerate(chat.messages):
            if message["role"] != "assistant" or index < chat.n_told:
                continue
            tools = {"tools": list(chat.tools)} if chat.tools else {}
            before = [as_sent(earlier) for earlier in chat.messages[:index]]
            if is_streaming:
                given = self.stream(messages=before, **tools)
            else:
                given = read(self.ask("/v1/chat/completions", messages=before, **tools)["message"])
            expected = (message.get("content"), [
                (call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", ())
            ])
            if given != expected:
                return f"expected {expected!r}, given {given!r}"
        return None

    def stream(self, **body) -> tuple[str | None, list]:
        """Asks for a stream and puts its pieces together."""
        data = json.dumps({
            "model": self._model, "temperature": 0, "max_tokens": MAX_TOKENS, "stream": True, **body
        }).encode()
        request = urllib.request.Request(
            self._url + "/v1/chat/completions", data, {"content-type": "application/json"}
        )
        content, calls = "", {}
        with urllib.request.urlopen(request, timeout=120) as response:
            for line in response:
                if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
                    continue
                for choice in json.loads(line[6:])["choices"]:
                    content += choice["delta"].get("content") or ""
                    for call in choice["delta"].get("tool_calls") or ():
                        known = calls.setdefault(call["index"], {"name": "", "arguments": ""})
                        for part in known:
                            known[part] += call["function"].get(part) or ""
        calls = [{"function": calls[index]} for index in sorted(calls)]
        return read({"content": content, "tool_calls": calls})


def as_sent(message: dict) -> dict:
    """Returns a message as clients send it: arguments are texts, calls and results have identities."""
    if message["role"] == "tool":
        return {**message, "tool_call_id": "call"}
    if "tool_calls" not in message:
        return message
    calls = [
        {"id": "call", "type": "function", "function": {
            "name": call["function"]["name"],
            "arguments": json.dumps(call["function"]["arguments"], ensure_ascii=False),
        }}
        for call in message["tool_calls"]
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def read(message: dict) -> tuple[str | None, list]:
    """Returns content and calls of an answer."""
    calls = message.get("tool_calls") or []
    functions = [call["function"] for call in calls]
    return message.get("content") or None, [
        (function["name"], json.loads(function["arguments"])) for function in functions
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", required=True)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=64)
    arguments = parser.parse_args()
    server = Server(arguments.url, arguments.model)
    plays = {
        "react": server.react_mistake,
        "chat": lambda chat: server.chat_mistake(chat, is_streaming=False),
        "chat streamed": lambda chat: server.chat_mistake(chat, is_streaming=True),
    }
    for name, play in plays.items():
        drawn = held_out_transcripts(name.partition(" ")[0], arguments.runs, arguments.seed)
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(arguments.clients) as pool:
            mistakes = [mistake for mistake in pool.map(play, drawn) if mistake]
        for mistake in mistakes[:3]:
            print(f"--- {name}: {mistake}")
        seconds = time.monotonic() - start
        print(f"{name}: {len(drawn) - len(mistakes)} of {len(drawn)} runs exact, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
