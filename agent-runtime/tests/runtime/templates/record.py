#!/usr/bin/env python3
"""Records what transformers writes for the conversations of tests/runtime/templates.rs.

Usage: record.py, in an environment with transformers and jinja2. It writes recorded.json beside itself.
"""

import datetime
import json
from pathlib import Path

import transformers
from transformers.utils import chat_template_utils

HERE = Path(__file__).parent
NOW = datetime.datetime(2026, 2, 2, 2, 40, 0)

CALC = {"type": "function", "function": {"name": "calc", "description": "Evaluates an expression.", "parameters": {
    "type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}}}
ORDER = {"type": "function", "function": {"name": "order", "description": "Orders – \"now\".", "parameters": {
    "type": "object",
    "properties": {
        "item": {"type": "string", "description": "What"},
        "count": {"type": "integer", "minimum": 1},
    },
    "required": ["item"],
}}}


def call(number, name, arguments):
    return {"type": "function", "id": number, "function": {"name": name, "arguments": arguments}}


def tool(number, name, content):
    return {"role": "tool", "tool_call_id": number, "name": name, "content": content}


FIRST = [
    {"role": "system", "content": "Be brief.\nUse tools."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "What is\n\n  17*23 and 2+2?"},
]
ONE, TWO = call("c00010000", "calc", {"expression": "17*23"}), call("c00010001", "calc", {"expression": "2+2"})
TOGETHER = FIRST + [
    {"role": "assistant", "content": "Let me see.", "reasoning_content": "Two products.", "tool_calls": [ONE, TWO]},
    tool("c00010000", "calc", "391"),
    tool("c00010001", "calc", "4"),
]
APART = FIRST + [
    {"role": "assistant", "content": None, "tool_calls": [ONE]},
    tool("c00010000", "calc", "391"),
    {"role": "assistant", "content": None, "tool_calls": [TWO]},
    tool("c00010001", "calc", "4"),
]


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def main():
    chat_template_utils.datetime = Clock
    recorded = {"transformers": transformers.__version__}
    for name, then, bos in [("qwen3", TOGETHER, None), ("llama31", APART, "<|begin_of_text|>")]:
        template = (HERE / f"{name}.jinja").read_text()
        tokens = {"bos_token": bos} if bos else {}

        def render(messages):
            rendered, _ = chat_template_utils.render_jinja_template(
                conversations=[messages], tools=[CALC, ORDER], chat_template=template, add_generation_prompt=True, **tokens
            )
            return rendered[0]

        recorded[name] = [render(FIRST), render(then)]
    (HERE / "recorded.json").write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
