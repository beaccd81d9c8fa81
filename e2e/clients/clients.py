"""The matrix's Python clients: each cell is a function that uses a client as its own documentation does.

`python clients.py ORIGIN ENGINE CLIENT...` prints one line of JSON for each cell.
"""

import asyncio
import gc
import json
import sys
import time
import traceback
import urllib.request
import uuid

import openai
from pydantic import BaseModel

ORIGIN, ENGINE = sys.argv[1:3]
BASE = f"{ORIGIN}/v1"
MODEL = "support"
HELLO = "Hello there, friend."
SUNNY = "It is sunny in Paris."
SYSTEM = "Sign as Slipway."
WEATHER = "What is the weather in Paris?"
SUM = "What is 17*23?"
CITY = "Which is the largest city of France?"
FOR_EVER = "Go on for ever."
OVERFLOW = "overflow"
BREAK = "Please break down."


class City(BaseModel):
    """A city."""

    name: str
    population: int


PARIS = City(name="Paris", population=2100000)
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {
    "type": "function",
    "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": PARAMETERS},
}


def same(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def cancelled() -> int:
    with urllib.request.urlopen(f"{ENGINE}/seen") as answer:
        return json.load(answer)["cancelled"]


def until_cancelled(before: int) -> None:
    """The engine's generation has ended because its client has."""
    for _ in range(100):
        if cancelled() > before:
            return
        time.sleep(0.05)
    raise AssertionError("the engine's generation was not cancelled")


def retry() -> str:
    """A question that the engine refuses once."""
    return f"Hello, retry-{uuid.uuid4()}"


def fails(call, kind, *words: str) -> None:
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in {error}"
        return
    raise AssertionError(f"it did not raise {kind.__name__}")


class OpenAiPython:
    """openai-python."""

    name = "openai-python"

    def __init__(self):
        self.client = openai.OpenAI(base_url=BASE, api_key="none", max_retries=0)

    def ask(self, text, **more):
        return self.client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": text}], **more
        )

    def plain(self):
        choice = self.ask("Hi").choices[0]
        same((choice.message.content, choice.finish_reason), (HELLO, "stop"))

    def stream(self):
        chunks = [chunk.choices[0].delta.content or "" for chunk in self.ask("Hi", stream=True)]
        same("".join(chunks), HELLO)
        assert len(chunks) > 3, "it came in one part"

    def system(self):
        messages = [{"role": "developer", "content": SYSTEM}, {"role": "user", "content": "Write a signature."}]
        answer = self.client.chat.completions.create(model=MODEL, messages=messages)
        same(answer.choices[0].message.content, "Yours, Slipway")

    def server_tools(self):
        same(self.ask(SUM).choices[0].message.content, "17*23 is 391.")

    def client_tools(self):
        messages = [{"role": "user", "content": WEATHER}]
        first = self.client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL]).choices[0]
        same(first.finish_reason, "tool_calls")
        call = first.message.tool_calls[0]
        same((call.function.name, json.loads(call.function.arguments)), ("get_weather", {"city": "Paris"}))
        messages += [first.message, {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        last = self.client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL]).choices[0]
        same(last.message.content, SUNNY)

    def json_schema(self):
        messages = [{"role": "user", "content": CITY}]
        answer = self.client.chat.completions.parse(model=MODEL, messages=messages, response_format=City)
        same(answer.choices[0].message.parsed, PARIS)

    def usage(self):
        usage = self.ask("Hi").usage
        same((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (11, 3, 14))
        same(usage.prompt_tokens_details.cached_tokens, 3)
        last = list(self.ask("think", stream=True, stream_options={"include_usage": True}))[-1]
        assert last.usage.completion_tokens_details.reasoning_tokens > 0, last.usage

    def error(self):
        fails(lambda: self.ask(BREAK), openai.InternalServerError, "EngineCore died")

    def overflow(self):
        fails(lambda: self.ask(OVERFLOW), openai.BadRequestError, "do not fit the model's context")

    def cancel(self):
        before = cancelled()
        with self.ask(FOR_EVER, stream=True) as stream:
            next(chunk for chunk in stream if chunk.choices[0].delta.content)
        until_cancelled(before)

    def retry(self):
        client = self.client.with_options(max_retries=2)
        answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": retry()}])
        same(answer.choices[0].message.content, HELLO)


class OpenAiPythonResponses:
    """openai-python, with the Responses API."""

    name = "openai-python, responses"

    def __init__(self):
        self.client = openai.OpenAI(base_url=BASE, api_key="none", max_retries=0)

    def ask(self, text, **more):
        return self.client.responses.create(model=MODEL, input=text, **more)

    def plain(self):
        answer = self.ask("Hi")
        same((answer.output_text, answer.status), (HELLO, "completed"))
        same(self.client.responses.retrieve(answer.id).output_text, HELLO)
        self.client.responses.delete(answer.id)

    def stream(self):
        events = list(self.ask("Hi", stream=True))
        deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
        same(("".join(deltas), events[-1].type), (HELLO, "response.completed"))
        same([event.sequence_number for event in events], list(range(len(events))))
        # The engine writes three parts.
        assert len(deltas) == 3, "it came in other parts than the engine wrote"
        with self.client.responses.stream(model=MODEL, input="think") as stream:
            same(stream.get_final_response().output_text, HELLO)

    def system(self):
        same(self.ask("Write a signature.", instructions=SYSTEM).output_text, "Yours, Slipway")

    def server_tools(self):
        same(self.ask(SUM).output_text, "17*23 is 391.")

    def client_tools(self):
        tool = {"type": "function", "strict": True, **TOOL["function"]}
        question = {"role": "user", "content": WEATHER}
        first = self.client.responses.create(model=MODEL, input=[question], tools=[tool])
        call = first.output[-1]
        same((call.type, call.name, json.loads(call.arguments)), ("function_call", "get_weather", {"city": "Paris"}))
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        last = self.client.responses.create(model=MODEL, input=[question, *first.output, result], tools=[tool])
        same(last.output_text, SUNNY)
        last = self.client.responses.create(
            model=MODEL, input=[result], tools=[tool], previous_response_id=first.id
        )
        same(last.output_text, SUNNY)

    def json_schema(self):
        same(self.client.responses.parse(model=MODEL, input=CITY, text_format=City).output_parsed, PARIS)

    def usage(self):
        usage = self.ask("Hi").usage
        same((usage.input_tokens, usage.output_tokens, usage.total_tokens), (11, 3, 14))
        same(usage.input_tokens_details.cached_tokens, 3)
        last = list(self.ask("think", stream=True))[-1]
        assert last.response.usage.output_tokens_details.reasoning_tokens > 0, last.response.usage

    def error(self):
        fails(lambda: self.ask(BREAK), openai.InternalServerError, "EngineCore died")

    def overflow(self):
        fails(lambda: self.ask(OVERFLOW), openai.BadRequestError, "input: they do not fit the model's context")

    def cancel(self):
        before = cancelled()
        with self.ask(FOR_EVER, stream=True) as stream:
            next(event for event in stream if event.type == "response.output_text.delta")
        until_cancelled(before)

    def retry(self):
        client = self.client.with_options(max_retries=2)
        same(client.responses.create(model=MODEL, input=retry()).output_text, HELLO)


class LangChain:
    """langchain-openai."""

    name = "LangChain"

    def __init__(self):
        from langchain_openai import ChatOpenAI

        self.make = lambda **more: ChatOpenAI(
            **{"model": MODEL, "base_url": BASE, "api_key": "none", "max_retries": 0, **more}
        )
        self.model = self.make()

    def plain(self):
        same(self.model.invoke("Hi").content, HELLO)

    def stream(self):
        chunks = [chunk.content for chunk in self.model.stream("Hi")]
        same("".join(chunks), HELLO)
        assert len(chunks) > 3, "it came in one part"

    def system(self):
        same(self.model.invoke([("system", SYSTEM), ("human", "Write a signature.")]).content, "Yours, Slipway")

    def server_tools(self):
        same(self.model.invoke(SUM).content, "17*23 is 391.")

    def client_tools(self):
        from langchain_core.messages import HumanMessage
        from langchain_core.tools import tool

        @tool
        def get_weather(city: str) -> str:
            """The weather of a city."""
            return f"sunny in {city}"

        model = self.model.bind_tools([get_weather])
        messages = [HumanMessage(WEATHER)]
        first = model.invoke(messages)
        same([call["args"] for call in first.tool_calls], [{"city": "Paris"}])
        messages += [first, get_weather.invoke(first.tool_calls[0])]
        same(model.invoke(messages).content, SUNNY)

    def json_schema(self):
        same(self.model.with_structured_output(City, method="json_schema").invoke(CITY), PARIS)

    def usage(self):
        usage = self.model.invoke("Hi").usage_metadata
        same((usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]), (11, 3, 14))
        same(usage["input_token_details"]["cache_read"], 3)

    def error(self):
        fails(lambda: self.model.invoke(BREAK), openai.InternalServerError, "EngineCore died")

    def overflow(self):
        fails(lambda: self.model.invoke(OVERFLOW), openai.BadRequestError, "do not fit the model's context")

    def cancel(self):
        before = cancelled()
        stream = self.model.stream(FOR_EVER)
        next(chunk for chunk in stream if chunk.content)
        stream.close()
        until_cancelled(before)

    def retry(self):
        same(self.make(max_retries=2).invoke(retry()).content, HELLO)


class LlamaIndex:
    """llama-index-llms-openai-like."""

    name = "LlamaIndex"

    def __init__(self):
        from llama_index.core.llms import ChatMessage
        from llama_index.llms.openai_like import OpenAILike

        self.message = ChatMessage
        self.make = lambda **more: OpenAILike(
            **{
                "model": MODEL,
                "api_base": BASE,
                "api_key": "none",
                "is_chat_model": True,
                "is_function_calling_model": True,
                "max_retries": 0,
                **more,
            }
        )
        self.model = self.make()

    def ask(self, text):
        return self.model.chat([self.message(role="user", content=text)])

    def plain(self):
        same(self.ask("Hi").message.content, HELLO)

    def stream(self):
        chunks = [chunk.delta or "" for chunk in self.model.stream_chat([self.message(role="user", content="Hi")])]
        same("".join(chunks), HELLO)
        assert len(chunks) > 3, "it came in one part"

    def system(self):
        messages = [self.message(role="system", content=SYSTEM), self.message(role="user", content="Write a signature.")]
        same(self.model.chat(messages).message.content, "Yours, Slipway")

    def server_tools(self):
        same(self.ask(SUM).message.content, "17*23 is 391.")

    def client_tools(self):
        from llama_index.core.tools import FunctionTool

        def get_weather(city: str) -> str:
            """The weather of a city."""
            return f"sunny in {city}"

        tool = FunctionTool.from_defaults(get_weather)
        answer = self.model.predict_and_call([tool], WEATHER)
        same(answer.response, "sunny in Paris")
        question = self.message(role="user", content=WEATHER)
        first = self.model.chat_with_tools([tool], chat_history=[question])
        call = self.model.get_tool_calls_from_response(first)[0]
        result = self.message(role="tool", content="sunny", additional_kwargs={"tool_call_id": call.tool_id})
        last = self.model.chat_with_tools([tool], chat_history=[question, first.message, result])
        same(last.message.content, SUNNY)

    def json_schema(self):
        model = self.make(should_use_structured_outputs=True)
        found = model.as_structured_llm(City).complete(CITY)
        same(found.raw, PARIS)

    def usage(self):
        usage = self.ask("Hi").raw.usage
        same((usage.prompt_tokens, usage.completion_tokens, usage.total_tokens), (11, 3, 14))

    def error(self):
        fails(lambda: self.ask(BREAK), openai.InternalServerError, "EngineCore died")

    def overflow(self):
        fails(lambda: self.ask(OVERFLOW), openai.BadRequestError, "do not fit the model's context")

    def cancel(self):
        before = cancelled()
        stream = self.model.stream_chat([self.message(role="user", content=FOR_EVER)])
        next(chunk for chunk in stream if chunk.delta)
        # It closes its connection when nothing refers to the stream any more.
        del stream
        gc.collect()
        until_cancelled(before)

    def retry(self):
        answer = self.make(max_retries=2).chat([self.message(role="user", content=retry())])
        same(answer.message.content, HELLO)


class OpenAiAgents:
    """OpenAI Agents SDK."""

    name = "OpenAI Agents SDK"

    def __init__(self):
        import agents

        self.sdk = agents
        agents.set_tracing_disabled(True)

    def agent(self, retries=0, **more):
        # A loop of its own for each run: a client of one loop does not work in another.
        client = openai.AsyncOpenAI(base_url=BASE, api_key="none", max_retries=retries)
        return self.sdk.Agent(name="test", model=self.model(client), **more)

    def model(self, client):
        return self.sdk.OpenAIChatCompletionsModel(model=MODEL, openai_client=client)

    def run(self, text, retries=0, **more):
        return asyncio.run(self.sdk.Runner.run(self.agent(retries, **more), text))

    def plain(self):
        same(self.run("Hi").final_output, HELLO)

    def stream(self):
        async def run():
            found = self.sdk.Runner.run_streamed(self.agent(), "Hi")
            deltas = []
            async for event in found.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    deltas.append(event.data.delta)
            return deltas

        deltas = asyncio.run(run())
        same("".join(deltas), HELLO)
        assert len(deltas) > 2, "it came in one part"

    def system(self):
        same(self.run("Write a signature.", instructions=SYSTEM).final_output, "Yours, Slipway")

    def server_tools(self):
        same(self.run(SUM).final_output, "17*23 is 391.")

    def client_tools(self):
        @self.sdk.function_tool
        def get_weather(city: str) -> str:
            """The weather of a city."""
            return f"sunny in {city}"

        found = self.run(WEATHER, tools=[get_weather])
        same((found.final_output, len(found.raw_responses)), (SUNNY, 2))

    def json_schema(self):
        same(self.run(CITY, output_type=City).final_output, PARIS)

    def usage(self):
        usage = self.run("Hi").context_wrapper.usage
        same((usage.input_tokens, usage.output_tokens, usage.total_tokens), (11, 3, 14))
        same(usage.input_tokens_details.cached_tokens, 3)

    def error(self):
        fails(lambda: self.run(BREAK), openai.InternalServerError, "EngineCore died")

    def overflow(self):
        fails(lambda: self.run(OVERFLOW), openai.BadRequestError, "do not fit the model's context")

    def cancel(self):
        async def run():
            found = self.sdk.Runner.run_streamed(self.agent(), FOR_EVER)
            async for event in found.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    found.cancel()

        before = cancelled()
        asyncio.run(run())
        until_cancelled(before)

    def retry(self):
        same(self.run(retry(), retries=2).final_output, HELLO)


class OpenAiAgentsResponses(OpenAiAgents):
    """OpenAI Agents SDK, with the Responses API, which is its default."""

    name = "OpenAI Agents SDK, responses"

    def model(self, client):
        return self.sdk.OpenAIResponsesModel(model=MODEL, openai_client=client)


class PydanticAi:
    """pydantic-ai."""

    name = "pydantic-ai"

    def __init__(self):
        import pydantic_ai
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        self.sdk = pydantic_ai

        def model(retries=0):
            client = openai.AsyncOpenAI(base_url=BASE, api_key="none", max_retries=retries)
            return OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))

        self.model = model

    def run(self, text, retries=0, **more):
        return asyncio.run(self.sdk.Agent(self.model(retries), **more).run(text))

    def plain(self):
        same(self.run("Hi").output, HELLO)

    def stream(self):
        async def run():
            async with self.sdk.Agent(self.model()).run_stream("Hi") as found:
                return [part async for part in found.stream_text(delta=True, debounce_by=None)]

        parts = asyncio.run(run())
        same("".join(parts), HELLO)
        assert len(parts) > 2, "it came in one part"

    def system(self):
        same(self.run("Write a signature.", instructions=SYSTEM).output, "Yours, Slipway")

    def server_tools(self):
        same(self.run(SUM).output, "17*23 is 391.")

    def client_tools(self):
        def get_weather(city: str) -> str:
            """The weather of a city."""
            return f"sunny in {city}"

        found = self.run(WEATHER, tools=[get_weather])
        same((found.output, found.usage.requests), (SUNNY, 2))

    def json_schema(self):
        same(self.run(CITY, output_type=self.sdk.NativeOutput(City)).output, PARIS)
        same(self.run(CITY, output_type=City).output, PARIS)

    def usage(self):
        usage = self.run("Hi").usage
        same((usage.input_tokens, usage.output_tokens, usage.cache_read_tokens), (11, 3, 3))

    def error(self):
        from pydantic_ai.exceptions import ModelHTTPError

        fails(lambda: self.run(BREAK), ModelHTTPError, "502", "EngineCore died")

    def overflow(self):
        from pydantic_ai.exceptions import ModelHTTPError

        fails(lambda: self.run(OVERFLOW), ModelHTTPError, "400", "context_length_exceeded")

    def cancel(self):
        async def run():
            async with self.sdk.Agent(self.model()).run_stream(FOR_EVER) as found:
                async for _ in found.stream_text(delta=True, debounce_by=None):
                    break

        before = cancelled()
        asyncio.run(run())
        until_cancelled(before)

    def retry(self):
        same(self.run(retry(), retries=2).output, HELLO)


CELLS = [
    "plain",
    "stream",
    "system",
    "server_tools",
    "client_tools",
    "json_schema",
    "usage",
    "error",
    "overflow",
    "cancel",
    "retry",
]


def main() -> None:
    for kind in [
        OpenAiPython,
        OpenAiPythonResponses,
        LangChain,
        LlamaIndex,
        OpenAiAgents,
        OpenAiAgentsResponses,
        PydanticAi,
    ]:
        if kind.name not in sys.argv[3:]:
            continue
        client = kind()
        for cell in CELLS:
            reason = ""
            try:
                getattr(client, cell)()
            except Exception as error:  # noqa: BLE001 - each cell says why it fails
                traceback.print_exc()
                reason = f"{type(error).__name__}: {error}"
            print(json.dumps({"client": kind.name, "cell": cell, "reason": reason}), flush=True)


main()
