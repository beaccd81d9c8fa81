"""A model server and a tool for benchmarks: what they answer depends on the request alone, and at once.

`POST /v1/completions` answers as vLLM's server does, streamed or not, for the agent runtime; its prompts are Qwen3's.
`POST /v1/chat/completions` is for everybody else, streamed or not. A conversation with tools has three calls, one a turn, and
then the answer; one without has the answer at once. `GET /tool/{n}` is the tool.

    mock.py PORT [SECONDS_OF_A_TURN SECONDS_OF_A_TOOL]

With times every turn of the agent runtime lasts so long, and its parts come evenly; several processes may share a port.
"""

import asyncio
import json
import sys

from aiohttp import web

WORDS = 32
PARTS = [f"word{number} " for number in range(WORDS)]
ANSWER = "".join(PARTS)
CALLS = 3
TURN, TOOL = web.AppKey("turn", float), web.AppKey("tool", float)


def usage(tokens: int) -> dict:
    return {"prompt_tokens": 11, "completion_tokens": tokens, "total_tokens": 11 + tokens}


async def events(request: web.Request, chunks: list[dict], seconds: float = 0) -> web.StreamResponse:
    """Sends each chunk by itself, as an engine does that writes a token at a time. The last one comes at the end."""
    begun = asyncio.get_running_loop().time()
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for number, chunk in enumerate(chunks, 1):
        if seconds:
            await asyncio.sleep(begun + seconds * number / len(chunks) - asyncio.get_running_loop().time())
        await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    await response.write(b"data: [DONE]\n\n")
    return response


def called(number: int) -> str:
    return f'<tool_call>\n{{"name": "lookup", "arguments": {{"n": "{number}"}}}}\n</tool_call>'


async def complete(request: web.Request) -> web.StreamResponse:
    """A turn of the agent runtime."""
    body = await request.json()
    prompt = body["prompt"]
    results = prompt.count("<tool_response>")
    parts = PARTS if "<tools>" not in prompt or results == CALLS else [called(results)]
    last = len(parts)
    if not body["stream"]:
        await asyncio.sleep(request.app[TURN])
        choice = {"index": 0, "text": "".join(parts), "finish_reason": "stop"}
        return web.json_response({"choices": [choice], "usage": usage(last)})
    chunks = [
        {
            "choices": [{"index": 0, "text": text, "finish_reason": "stop" if count == last else None}],
            "usage": usage(count),
        }
        for count, text in enumerate(parts, 1)
    ]
    return await events(request, chunks, request.app[TURN])


def chat_message(body: dict) -> dict:
    results = sum(message["role"] == "tool" for message in body["messages"])
    if not body.get("tools") or results == CALLS:
        return {"role": "assistant", "content": ANSWER}
    function = {"name": "lookup", "arguments": json.dumps({"n": str(results)})}
    call = {"id": f"call_{results}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


async def chat(request: web.Request) -> web.StreamResponse:
    """A turn of everybody else."""
    body = await request.json()
    common = {"id": "chatcmpl-1", "created": 1, "model": body["model"]}
    if body.get("stream"):
        deltas = [{"content": text} for text in PARTS] + [{}]
        finished = [None] * WORDS + ["stop"]
        chunks = [
            {**common, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
            for delta, end in zip(deltas, finished)
        ]
        return await events(request, chunks)
    message = chat_message(body)
    end = "tool_calls" if "tool_calls" in message else "stop"
    choices = [{"index": 0, "message": message, "finish_reason": end}]
    return web.json_response({**common, "object": "chat.completion", "choices": choices, "usage": usage(WORDS)})


async def tool(request: web.Request) -> web.Response:
    await asyncio.sleep(request.app[TOOL])
    return web.Response(text="42")


async def health(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def models(_request: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": "agent", "object": "model", "owned_by": "mock"}]})


async def info(_request: web.Request) -> web.Response:
    """What SMG asks a worker for."""
    return web.json_response({"model_path": "agent", "served_model_name": "agent", "is_generation": True})


def main() -> None:
    app = web.Application()
    port, *seconds = sys.argv[1:]
    app[TURN], app[TOOL] = map(float, seconds or [0, 0])
    app.router.add_post("/v1/completions", complete)
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/tool/{n}", tool)
    app.router.add_get("/health", health)
    app.router.add_get("/v1/models", models)
    for path in ("/get_model_info", "/model_info", "/get_server_info", "/server_info"):
        app.router.add_get(path, info)
    web.run_app(app, host="127.0.0.1", port=int(port), print=None, access_log=None, backlog=4096, reuse_port=True)


if __name__ == "__main__":
    main()
