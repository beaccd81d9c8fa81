#!/usr/bin/env python3
"""Records what vLLM's own parsers of tool calls read, for agent-runtime/tests/runtime/parsers.rs to compare with.

The parsers come from vLLM's wheel; of its dependencies only those that the parsers compute with are needed, and all
others are replaced by empty modules. Usage, in an environment with transformers, openai, regex, partial-json-parser,
pydantic-settings, msgspec and openai-harmony: parser-parity.py --wheel vllm-*.whl --write FILE.json

Harmony is left out: its parser needs a vocabulary that no package has.
"""

import argparse
import importlib
import importlib.abc
import importlib.machinery
import json
import sys
import tempfile
import types
import zipfile
from pathlib import Path
from unittest.mock import MagicMock

REAL = (
    "vllm.tool_parsers",
    "vllm.reasoning",
    "vllm.parser",
    "vllm.entrypoints.openai",
    "vllm.entrypoints.mcp",
    "vllm.utils",
    "vllm.logger",
    "vllm.envs",
    "vllm.logging_utils",
)
PARSERS = {
    "Hermes": ("hermes_tool_parser", "Hermes2ProToolParser"),
    "Qwen3Coder": ("qwen3_engine_tool_parser", None),
    "Llama3Json": ("llama_tool_parser", "Llama3JsonToolParser"),
    "Llama4Pythonic": ("llama4_pythonic_tool_parser", "Llama4PythonicToolParser"),
    "Mistral": ("mistral_tool_parser", "MistralToolParser"),
    "Mistral/v11": ("mistral_tool_parser", "MistralToolParser"),
    "DeepSeek": ("deepseekv31_tool_parser", "DeepSeekV31ToolParser"),
    "DeepSeek/V3": ("deepseekv3_tool_parser", "DeepSeekV3ToolParser"),
    "Phi4": ("phi4mini_tool_parser", "Phi4MiniJsonToolParser"),
    "Granite": ("granite_tool_parser", "GraniteToolParser"),
    "Granite/20b": ("granite_20b_fc_tool_parser", "Granite20bFCToolParser"),
}
MARKS = [
    "<tool_call>", "</tool_call>", "<|python_tag|>", "<|python_start|>", "<|python_end|>", "[TOOL_CALLS]", "[ARGS]",
    "[CALL_ID]", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>", "<think>", "</think>", "<|tool_call|>", "<function_call>",
]


def any_schema(cls, source, handler):
    import pydantic_core

    return pydantic_core.core_schema.any_schema()


class Stub(types.ModuleType):
    """A module in which everything is there and does nothing."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = MagicMock(name=name)
        if name[:1].isupper():
            methods = {"__class_getitem__": classmethod(lambda cls, item: cls)}
            value = type(name, (), methods | {"__get_pydantic_core_schema__": classmethod(any_schema)})
        setattr(self, name, value)
        return value


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds stubs for all that is not installed, and for the parts of vLLM that parsers do not compute with."""

    def find_spec(self, name, path, target=None):
        top = name.split(".")[0]
        if top == "vllm":
            is_real = any(name == real or name.startswith(real + ".") or real.startswith(name + ".") for real in REAL)
        else:
            others = [finder for finder in sys.meta_path if finder is not self]
            is_real = top != "torch" and any(finder.find_spec(top, None) for finder in others)
        return None if is_real else importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        pass


def load(wheel, folder):
    """Unpacks the wheel's sources and prepares their import."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".py"):
                archive.extract(name, folder)
    import transformers  # noqa: F401, before anything is replaced

    package = types.ModuleType("vllm")
    package.__path__ = [str(Path(folder) / "vllm")]
    sys.modules["vllm"] = package
    sys.meta_path.insert(0, Stubs())
    importlib.import_module("vllm.entrypoints.chat_utils").make_tool_call_id = lambda **_: "call"


CALLS = [
    [("look", {"city": "Bern"})],
    [("look", {})],
    [("look", {"city": "Zürich 🙂", "days": 3})],
    [("order", {"lines": [{"item": "nut", "count": 2}, {"item": "bolt"}], "note": None})],
    [("order", {"deep": {"a": {"b": [1, [2, {"c": True}]]}}, "ratio": 0.5, "less": -7})],
    [("look", {"text": "a \"quoted\" word, a \\ and a\nline"})],
    [("look", {"text": "} ] { ["})],
    [("look", {"city": "Bern"}), ("look", {"city": "Basel"})],
    [("look", {}), ("order", {"x": [1, 2]}), ("look", {"z": False})],
    [("look", {"text": "it's <b>"})],
]
TEXTS = ["It is 5 m.", "One.\n\nTwo.\n", "Use f(x) = {x} [1].", "A < b and c > d.", "Zürich 🙂"]


def python(value):
    return repr(value)


def encode(dialect, calls):
    """Calls as a model of the dialect writes them."""
    objects = [json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False) for name, arguments in calls]
    plain = [(name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in calls]
    match dialect:
        case "Hermes":
            return "\n".join(f"<tool_call>\n{written}\n</tool_call>" for written in objects)
        case "Qwen3Coder":
            def text(value):
                return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

            def parameters(arguments):
                return "".join(f"<parameter={key}>\n{text(value)}\n</parameter>\n" for key, value in arguments.items())

            return "\n".join(
                f"<tool_call>\n<function={name}>\n{parameters(arguments)}</function>\n</tool_call>"
                for name, arguments in calls
            )
        case "Llama3Json":
            return "; ".join(f'{{"name": "{name}", "parameters": {arguments}}}' for name, arguments in plain)
        case "Llama4Pythonic":
            def pairs(arguments):
                return ", ".join(f"{key}={python(value)}" for key, value in arguments.items())

            return "[" + ", ".join(f"{name}({pairs(arguments)})" for name, arguments in calls) + "]"
        case "Mistral":
            return "[TOOL_CALLS][" + ", ".join(objects) + "]"
        case "Mistral/v11":
            return "".join(f"[TOOL_CALLS]{name}{arguments}" for name, arguments in plain)
        case "DeepSeek":
            inner = "".join(f"<｜tool▁call▁begin｜>{n}<｜tool▁sep｜>{a}<｜tool▁call▁end｜>" for n, a in plain)
            return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"
        case "DeepSeek/V3":
            inner = "\n".join(
                f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{n}\n```json\n{a}\n```<｜tool▁call▁end｜>" for n, a in plain
            )
            return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"
        case "Phi4":
            return "functools[" + ", ".join(objects) + "]"
        case "Granite":
            return "<|tool_call|>[" + ", ".join(objects) + "]"
        case "Granite/20b":
            return "".join(f"<function_call> {written}" for written in objects)


def outputs(dialect):
    """Outputs of a dialect: calls, text before them, text alone, and calls with mistakes."""
    for calls in CALLS:
        yield encode(dialect, calls)
    for calls in CALLS[:3]:
        yield "Let me look.\n" + encode(dialect, calls)
    yield from TEXTS
    one = encode(dialect, CALLS[0])
    yield from [one[:-1], one[: len(one) // 2], one.replace('"', "", 1), one.replace("look", "", 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", required=True)
    parser.add_argument("--write", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        load(arguments.wheel, folder)
        recorded = [case for dialect in PARSERS for case in answers(dialect)]
    record = {"vllm": Path(arguments.wheel).name.split("-")[1], "cases": recorded}
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in record["cases"])
    Path(arguments.write).write_text(f'{{"vllm": "{record["vllm"]}", "cases": [\n{lines}\n]}}\n')


def answers(dialect):
    module, name = PARSERS[dialect]
    module = importlib.import_module(f"vllm.tool_parsers.{module}")
    classes = [value for key, value in vars(module).items() if key.endswith("ToolParser") and key != "ToolParser"]
    cls = getattr(module, name) if name else classes[-1]
    # Which of its two forms Mistral's parser reads depends on the vocabulary.
    module.is_mistral_tokenizer = lambda tokenizer: False
    left_out = ("[ARGS]", "[CALL_ID]") if dialect == "Mistral" else ()
    vocabulary = {mark: 1000 + index for index, mark in enumerate(MARKS) if mark not in left_out}
    for output in outputs(dialect):
        tokenizer = MagicMock()
        tokenizer.get_vocab.return_value = vocabulary
        tokenizer.encode.side_effect = lambda text, **_: [vocabulary.get(text, 1)]
        request = MagicMock(tools=None, tool_choice="auto")
        case = {"dialect": dialect.split("/")[0], "output": output}
        try:
            read = cls(tokenizer).extract_tool_calls(output, request)
            calls = [[call.function.name, call.function.arguments] for call in read.tool_calls]
            yield case | {"content": read.content, "calls": calls}
        except Exception as error:  # what upstream does not catch is its answer too
            yield case | {"fails": str(error)}


if __name__ == "__main__":
    main()
