"""Episodes as chats: ChatML with tools, calls and results as Hermes and Qwen2.5 write them.

The same text as `chat_template.jinja` renders, written with the standard library (`tests/test_chat.py` compares them).
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass

from corpus.draw import Draw
from corpus.episodes import Turn, draw_system_text, draw_turns
from corpus.script import Step
from corpus.split import Split
from corpus.tools import Toolset, draw_toolset

END = "<|im_end|>"
ASSISTANT = "<|im_start|>assistant\n"
NO_TOOLS = "I have no tools to find that out."
"""What is answered where no tools are offered."""

TOOLS_HEADING = "# Tools\n\nCall tools to find the answer. These are there:\n<tools>"
TOOLS_ENDING = (
    "\n</tools>\n\nWrite each call in its own tags, calls that do not need each other's results together:\n"
    '<tool_call>\n{"name": <name>, "arguments": <arguments as JSON>}\n</tool_call>'
)

MAX_CHARACTERS = 5600
"""Chats are at most this long, which mostly fits the context of 2,048 tokens; an eighth of it is usual."""

_NO_TOOLS_SHARE = 0.02
_COMPACT_SHARE = 0.2
_TURNS = (1,) * 24 + (2,) * 8 + (3, 3, 3, 4, 4, 6, 9)
_CHAT_HISTORY_SHARE = 0.35
_OBJECT_RESULT_SHARE = 0.08
_RESULT_KEYS = ("value", "result", "answer", "data", "output")
_ERROR = "error: "


@dataclass(frozen=True)
class Chat:
    """A whole chat; its last message is the model's answer."""

    turns: tuple[Turn, ...]
    messages: tuple[dict, ...]
    """As OpenAI's chat completions have them; arguments of calls are objects."""
    tools: tuple[dict, ...]
    n_told: int = 0
    """Messages at the beginning that the model only reads: earlier questions and answers without the calls."""
    is_compact: bool = False
    """Whether the client writes JSON without blanks; the model then writes arguments as it reads them."""

    def model_calls(self) -> Iterator[tuple[str, str]]:
        """Yields each prompt of this chat with the exact completion expected for it, without the end mark."""
        prompt = ""
        for text, is_completion in self.pieces():
            if is_completion:
                yield prompt, text
            prompt += text

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """Yields the chat in order: text, and whether the model has to write it."""
        system, *texts = rendered(self.messages, self.tools, self.is_compact)
        context = system
        for index, (message, text) in enumerate(zip(self.messages, texts)):
            if message["role"] != "assistant" or index < self.n_told:
                context += text
                continue
            yield context + ASSISTANT, False
            yield text.removeprefix(ASSISTANT).removesuffix(f"{END}\n"), True
            context = f"{END}\n"

    def text(self) -> str:
        """Returns everything up to the last answer."""
        return "".join(text for text, _ in self.pieces())


def rendered(messages: tuple[dict, ...], tools: tuple[dict, ...], is_compact: bool = False) -> Iterator[str]:
    """Yields the system part, which may be empty, and the text of each message; a leading system message has none."""
    has_system = bool(messages) and messages[0]["role"] == "system"
    yield _system(messages[0]["content"] if has_system else "", tools, is_compact)
    for index, message in enumerate(messages):
        if has_system and index == 0:
            yield ""
        elif message["role"] == "tool":
            is_first = messages[index - 1]["role"] != "tool"
            is_last = index + 1 == len(messages) or messages[index + 1]["role"] != "tool"
            result = f"\n<tool_response>\n{message['content']}\n</tool_response>"
            yield ("<|im_start|>user" if is_first else "") + result + (f"{END}\n" if is_last else "")
        else:
            yield f"<|im_start|>{message['role']}\n{_content(message, is_compact)}{END}\n"


def _system(system: str, tools: tuple[dict, ...], is_compact: bool) -> str:
    parts = [system] if system else []
    if tools:
        parts.append(TOOLS_HEADING + "".join(f"\n{_json(tool, is_compact)}" for tool in tools) + TOOLS_ENDING)
    text = "\n\n".join(parts)
    return f"<|im_start|>system\n{text}{END}\n" if parts else ""


def _content(message: dict, is_compact: bool) -> str:
    parts = [message["content"]] if message.get("content") else []
    for call in message.get("tool_calls") or ():
        function = call["function"]
        arguments = _json(function["arguments"], is_compact)
        parts.append(f'<tool_call>\n{{"name": "{function["name"]}", "arguments": {arguments}}}\n</tool_call>')
    return "\n".join(parts)


def _json(value: dict, is_compact: bool) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":") if is_compact else None)


def draw_chat(rng: random.Random, split: Split, max_characters: int) -> Chat:
    """Draws a chat whose every name, number, phrasing and signature of tools lies in `split`, or is the demo's."""
    draw = Draw(rng, split)
    while True:
        chat = _draw_chat(draw)
        if len(chat.text()) <= max_characters:
            return chat


def _draw_chat(draw: Draw) -> Chat:
    toolset = draw_toolset(draw)
    turns = tuple(draw_turns(draw, draw.pick(_TURNS)))
    if draw.chance(_NO_TOOLS_SHARE):
        turns = (Turn("no tools", turns[0].question, (), NO_TOOLS),)
        toolset = Toolset(toolset.lookup, toolset.calc, ())
    keys = {tool.name: draw.pick(_RESULT_KEYS) if draw.chance(_OBJECT_RESULT_SHARE) else None
            for tool in (toolset.lookup, toolset.calc)}
    is_history = draw.chance(_CHAT_HISTORY_SHARE)
    system = draw_system_text(draw)
    messages = [{"role": "system", "content": system}] if system else []
    n_told = 0
    for index, turn in enumerate(turns):
        if index + 1 == len(turns) and is_history:
            n_told = len(messages)
        messages += chat_turn(turn, toolset, keys, with_steps=not is_history or index + 1 == len(turns))
    return Chat(turns, tuple(messages), toolset.described, n_told, is_compact=draw.chance(_COMPACT_SHARE))


def chat_turn(
    turn: Turn, toolset: Toolset, keys: dict[str, str | None] | None = None, with_steps: bool = True
) -> Iterator[dict]:
    """Yields a turn's messages; `keys` names the tools whose results are objects and the key of their value."""
    yield {"role": "user", "content": turn.question}
    for step in turn.steps if with_steps else ():
        yield from _step(step, toolset, keys or {})
    yield {"role": "assistant", "content": turn.answer}


def _step(step: Step, toolset: Toolset, keys: dict[str, str | None]) -> Iterator[dict]:
    calls = [toolset.call(action) for action in step.actions]
    yield {
        "role": "assistant",
        "tool_calls": [{"type": "function", "function": {"name": name, "arguments": given}} for name, given in calls],
    }
    for (name, _), observation in zip(calls, step.observations):
        yield {"role": "tool", "content": _result(observation, keys.get(name))}


def _result(observation: str, key: str | None) -> str:
    if key is None or observation.startswith(_ERROR):
        return observation
    is_number = observation.removeprefix("-").replace(".", "", 1).isdecimal()
    return f'{{"{key}": {observation if is_number else json.dumps(observation, ensure_ascii=False)}}}'
