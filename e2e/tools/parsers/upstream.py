"""vLLM's own parsers of calls and thoughts, loaded from its wheel.

Of its dependencies only those that the parsers compute with are needed; all others are replaced by empty modules.
"""

import functools
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
import zipfile
from pathlib import Path
from unittest.mock import MagicMock

from parsers import harmony
from parsers.outputs import MARKS, granite_thinking_outputs, outputs, thinking_outputs

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
QWEN3 = ("qwen3_engine_reasoning_parser", "Qwen3ParserReasoningAdapter", "<think>", "</think>")
# Parsers of thoughts, with the marks around these. Harmony has one for calls and thoughts.
REASONING = {
    "Hermes": QWEN3,
    "Qwen3Coder": QWEN3,
    "DeepSeek": ("deepseek_r1_reasoning_parser", "DeepSeekR1ReasoningParser", "<think>", "</think>"),
    "Mistral": ("mistral_reasoning_parser", "MistralReasoningParser", "[THINK]", "[/THINK]"),
    "Granite": ("granite_reasoning_parser", "GraniteReasoningParser", None, None),
}
DIALECTS = [*PARSERS, "Harmony"]


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


def thinking_parsers():
    """The parser of thoughts that each dialect is compared with."""
    return {dialect: name for dialect, (_, name, *_) in REASONING.items()} | {"Harmony": harmony.PARSER}


def thoughts():
    """What upstream reads of the thoughts of every dialect."""
    for dialect in REASONING:
        yield from thoughts_of(dialect)
    for output in outputs("Harmony"):
        read = harmony.read(output)
        if "fails" not in read:
            case = {"dialect": "Harmony", "prompt": "", "output": output}
            yield case | {"thoughts": read["thoughts"], "content": read["content"]}


def thoughts_of(dialect):
    module, name, begin, end = REASONING[dialect]
    cls = getattr(importlib.import_module(f"vllm.reasoning.{module}"), name)
    if dialect == "Mistral":
        # Its marks come from a package of Mistral's, which its tokenizers have too.
        parser = type(name, (cls,), {"start_token": begin, "end_token": end, "__init__": lambda self: None})()
    else:
        parser = cls(tokenizer_of({mark: 1000 + index for index, mark in enumerate(MARKS)}))
    cases = [("", output) for output in granite_thinking_outputs()] if begin is None else thinking_outputs(begin, end)
    for prompt, output in cases:
        # This one takes for thoughts only what the model began itself.
        if dialect == "Mistral" and prompt:
            continue
        thoughts, content = parser.extract_reasoning(output, MagicMock())
        yield {"dialect": dialect, "prompt": prompt, "output": output, "thoughts": thoughts, "content": content}


@functools.cache
def parser_of(dialect):
    """The class that reads a dialect, and the vocabulary that its models have."""
    module, name = PARSERS[dialect]
    module = importlib.import_module(f"vllm.tool_parsers.{module}")
    classes = [value for key, value in vars(module).items() if key.endswith("ToolParser") and key != "ToolParser"]
    # Which of its two forms Mistral's parser reads depends on the vocabulary.
    module.is_mistral_tokenizer = lambda tokenizer: False
    left_out = ("[ARGS]", "[CALL_ID]") if dialect == "Mistral" else ()
    vocabulary = {mark: 1000 + index for index, mark in enumerate(MARKS) if mark not in left_out}
    return getattr(module, name) if name else classes[-1], vocabulary


def tokenizer_of(vocabulary):
    tokenizer = MagicMock()
    tokenizer.get_vocab.return_value = vocabulary
    tokenizer.encode.side_effect = lambda text, **_: [vocabulary.get(text, 1)]
    return tokenizer


def answer(dialect, output):
    """What upstream reads of an output."""
    if dialect == "Harmony":
        return {"dialect": dialect, "output": output} | harmony.read(output)
    cls, vocabulary = parser_of(dialect)
    request = MagicMock(tools=None, tool_choice="auto")
    case = {"dialect": dialect.split("/")[0], "output": output}
    try:
        read = cls(tokenizer_of(vocabulary)).extract_tool_calls(output, request)
        calls = [[call.function.name, call.function.arguments] for call in read.tool_calls]
        return case | {"content": read.content, "calls": calls}
    except Exception as error:  # what upstream does not catch is its answer too
        return case | {"fails": str(error)}
