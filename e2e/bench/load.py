"""Asks a server for so many chats or runs, so many at once, and checks each answer."""

import asyncio
import json
import sys

import aiohttp

from mock import ANSWER

QUESTION = [{"role": "user", "content": "What is the answer?"}]


async def chat(session: aiohttp.ClientSession, origin: str) -> str:
    body = {"model": "agent", "messages": QUESTION}
    async with session.post(f"{origin}/v1/chat/completions", json=body) as response:
        return (await response.json())["choices"][0]["message"]["content"]


async def stream(session: aiohttp.ClientSession, origin: str) -> str:
    body = {"model": "agent", "messages": QUESTION, "stream": True}
    text = ""
    async with session.post(f"{origin}/v1/chat/completions", json=body) as response:
        async for line in response.content:
            data = line.removeprefix(b"data: ").strip()
            if line.startswith(b"data: ") and data != b"[DONE]":
                choices = json.loads(data)["choices"]
                text += (choices[0]["delta"].get("content") or "") if choices else ""
    return text


ASK = {"chat": chat, "stream": stream, "run": chat}


async def main(kind: str, origin: str, count: int, at_once: int) -> None:
    left = iter(range(count))
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def client() -> None:
            for _ in left:
                text = await ASK[kind](session, origin)
                # Ours leaves out the white space around an answer.
                assert text.strip() == ANSWER.strip(), text

        await asyncio.gather(*[client() for _ in range(at_once)])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
