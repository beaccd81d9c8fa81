"""The same agent without the agent runtime: a bare loop of asyncio, and LangGraph. Prints what its runs cost."""

import asyncio
import json
import resource
import sys

import aiohttp

from mock import ANSWER

QUESTION = {"role": "user", "content": "What is the answer?"}
PARAMETERS = {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]}
TOOLS = [{"type": "function", "function": {"name": "lookup", "description": "A fact.", "parameters": PARAMETERS}}]


async def fact(session: aiohttp.ClientSession, origin: str, n: str) -> str:
    async with session.get(f"{origin}/tool/{n}") as response:
        return await response.text()


def bare(session: aiohttp.ClientSession, origin: str):
    """A loop with nothing but what an agent needs."""

    async def run() -> str:
        messages = [QUESTION]
        while True:
            body = {"model": "agent", "messages": messages, "tools": TOOLS}
            async with session.post(f"{origin}/v1/chat/completions", json=body) as response:
                message = (await response.json())["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            calls = [(call["id"], json.loads(call["function"]["arguments"])) for call in message["tool_calls"]]
            results = await asyncio.gather(*[fact(session, origin, arguments["n"]) for _, arguments in calls])
            for (name, _), result in zip(calls, results):
                messages.append({"role": "tool", "tool_call_id": name, "content": result})

    return run


def langgraph(session: aiohttp.ClientSession, origin: str):
    """LangChain's agent, which is a graph of LangGraph, without a checkpointer."""
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    async def lookup(n: str) -> str:
        """A fact."""
        return await fact(session, origin, n)

    model = ChatOpenAI(model="agent", base_url=f"{origin}/v1", api_key="none", max_retries=0)
    agent = create_agent(model, [lookup])

    async def run() -> str:
        state = await agent.ainvoke({"messages": [QUESTION]})
        return state["messages"][-1].content

    return run


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def main(kind: str, origin: str, count: int, at_once: int) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        run = {"asyncio": bare, "langgraph": langgraph}[kind](session, origin)

        async def runs(number: int) -> None:
            left = iter(range(number))

            async def client() -> None:
                for _ in left:
                    text = await run()
                    assert text == ANSWER, text

            await asyncio.gather(*[client() for _ in range(at_once)])

        # What is done once is not counted: imports, connections, caches.
        await runs(max(count // 10, at_once))
        before = cpu_seconds()
        await runs(count)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"seconds": cpu_seconds() - before, "peak_kib": peak}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
