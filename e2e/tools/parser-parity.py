#!/usr/bin/env python3
"""Records what vLLM's own parsers of tool calls and thoughts read, for agent-runtime/tests/runtime/parsers.rs.

The parsers come from vLLM's wheel; of its dependencies only those that the parsers compute with are needed, and all
others are replaced by empty modules. Usage, in an environment with transformers, openai, regex, partial-json-parser,
pydantic-settings, msgspec and openai-harmony: parser-parity.py --wheel vllm-*.whl --write FILE.json

With --mutants outputs are changed at random, and both read them: --reader is the agent runtime's example read_turns,
and --table the file that says how often both read the same, and why not. It exits with 1 where no reason is known.

Harmony is left out: its parser needs a vocabulary that no package has.
"""

import argparse
import functools
import importlib
import importlib.abc
import importlib.machinery
import json
import logging
import random
import subprocess
import sys
import tempfile
import textwrap
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
# Parsers of thoughts, with the marks around these.
REASONING = {
    "Hermes": ("qwen3_engine_reasoning_parser", "Qwen3ParserReasoningAdapter", "<think>", "</think>"),
    "DeepSeek": ("deepseek_r1_reasoning_parser", "DeepSeekR1ReasoningParser", "<think>", "</think>"),
    "Mistral": ("mistral_reasoning_parser", "MistralReasoningParser", "[THINK]", "[/THINK]"),
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
THOUGHTS = ["Hm.", "\nHm.\n\nYes.\n", "", "\n\n", "a < b", "Zürich 🙂", '{"a": [1]}', "  two\n    lines  ", "[1] {x}"]
ANSWERS = ["It is 5.", "\n\nIt is 5.\n\nReally.", "", "A < b."]
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


def thinking_outputs(begin, end):
    """Prompts and outputs with thoughts, which the model or the prompt begins."""
    for prompt, begun in [("", begin), (f"{begin}\n", "")]:
        yield from ((prompt, f"{begun}{thoughts}{end}{ANSWERS[1]}") for thoughts in THOUGHTS)
        yield from ((prompt, f"{begun}{THOUGHTS[0]}{end}{answer}") for answer in ANSWERS)
        yield prompt, f"{begun}{THOUGHTS[0]}"
        yield prompt, f"{begun}{THOUGHTS[0]}{end}{THOUGHTS[0]}{end}"


def thoughts_of(dialect):
    """What upstream reads of a dialect's thoughts."""
    module, name, begin, end = REASONING[dialect]
    cls = getattr(importlib.import_module(f"vllm.reasoning.{module}"), name)
    if dialect == "Mistral":
        # Its marks come from a package of Mistral's, which its tokenizers have too.
        parser = type(name, (cls,), {"start_token": begin, "end_token": end, "__init__": lambda self: None})()
    else:
        parser = cls(tokenizer_of({mark: 1000 + index for index, mark in enumerate(MARKS)}))
    for prompt, output in thinking_outputs(begin, end):
        # This one takes for thoughts only what the model began itself.
        if dialect == "Mistral" and prompt:
            continue
        thoughts, content = parser.extract_reasoning(output, MagicMock())
        yield {"dialect": dialect, "prompt": prompt, "output": output, "thoughts": thoughts, "content": content}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", required=True)
    parser.add_argument("--write", type=Path, help="the record of what upstream reads")
    parser.add_argument("--mutants", type=int, default=0, help="outputs that are changed at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", help="the example read_turns")
    parser.add_argument("--table", type=Path, help="what came of the mutants")
    parser.add_argument("--show", type=int, default=3, help="differences without a reason to print, of each kind")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    version = Path(arguments.wheel).name.split("-")[1]
    with tempfile.TemporaryDirectory() as folder:
        load(arguments.wheel, folder)
        if arguments.write:
            arguments.write.write_text(record(version))
        if arguments.mutants:
            sys.exit(compare(arguments, version))


def record(version):
    """What upstream reads of the outputs above, a line each."""
    def lines(cases):
        return ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)

    calls = lines(answer(dialect, output) for dialect in PARSERS for output in outputs(dialect))
    thoughts = lines(case for dialect in REASONING for case in thoughts_of(dialect))
    return f'{{"vllm": "{version}", "cases": [\n{calls}\n], "thoughts": [\n{thoughts}\n]}}\n'


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
    cls, vocabulary = parser_of(dialect)
    request = MagicMock(tools=None, tool_choice="auto")
    case = {"dialect": dialect.split("/")[0], "output": output}
    try:
        read = cls(tokenizer_of(vocabulary)).extract_tool_calls(output, request)
        calls = [[call.function.name, call.function.arguments] for call in read.tool_calls]
        return case | {"content": read.content, "calls": calls}
    except Exception as error:  # what upstream does not catch is its answer too
        return case | {"fails": str(error)}


# Parsers of calls never see marks of thoughts upstream, which other parsers have taken away.
CALL_MARKS = [mark for mark in MARKS if "think" not in mark]
# What stands between the parts of calls.
PUNCTUATION = ["{", "}", "[", "]", '"', "'", "\\", ",", ":", ";", "(", ")", "=", "<", ">", "\n", " ", "```json", "null",
               "é🙂"]


def mutant(rolls, whole):
    """One of these outputs with one to three changes."""
    text = rolls.choice(whole)
    for _ in range(rolls.randint(1, 3)):
        at = rolls.randint(0, len(text))
        end = min(len(text), at + rolls.randint(1, 12))
        match rolls.randrange(6):
            case 0:
                text = text[:at] + text[end:]
            case 1:
                text = text[:end] + text[at:]
            case 2:
                text = text[:at] + rolls.choice(PUNCTUATION) + text[at:]
            case 3:
                text = text[:at] + rolls.choice(CALL_MARKS) + text[at:]
            case 4:
                text = text[:at]
            case 5:
                other = rolls.choice(whole)
                text = text[:at] + other[rolls.randint(0, len(other)) :]
    return text


def value(text):
    """Arguments as a value of JSON; a text where they are none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def outcome(theirs, ours):
    """What a pair counts as."""
    calls = [[name, value(arguments)] for name, arguments in theirs.get("calls", [])]
    text = (theirs.get("content") or "").strip()
    if ours["problem"]:
        return "stricter" if calls else "told"
    if calls == ours["calls"]:
        return "alike" if text == ours["text"].strip() else "text"
    if not calls:
        return "here"
    return "calls" if ours["calls"] else "upstream"


OUTCOMES = {
    "alike": "both read the same text and calls",
    "told": "the call has a mistake, which the model is told here; upstream hands the output out as text, or nothing",
    "stricter": "the same, and upstream hands calls out",
    "text": "the same calls, and another text",
    "here": "calls here, and none upstream",
    "upstream": "calls upstream, and none here",
    "calls": "other calls",
}


def compare(arguments, version):
    """Compares mutants of every dialect; returns the exit status."""
    rolls = random.Random(arguments.seed)
    counts, unknown, cut = {}, [], 0
    for number, dialect in enumerate(PARSERS):
        share = (arguments.mutants * (number + 1)) // len(PARSERS) - (arguments.mutants * number) // len(PARSERS)
        whole = list(outputs(dialect))
        mutants = [mutant(rolls, whole) for _ in range(share)]
        asked = "".join(json.dumps({"dialect": dialect.split("/")[0], "output": one}) + "\n" for one in mutants)
        read = subprocess.run([arguments.reader], input=asked.encode(), stdout=subprocess.PIPE, check=True)
        for one, line in zip(mutants, read.stdout.splitlines(), strict=True):
            theirs, ours = answer(dialect, one), json.loads(line)
            kind = outcome(theirs, ours)
            cut += not ours["same"]
            counts[dialect, kind] = counts.get((dialect, kind), 0) + 1
            if kind not in ("alike", "told", "stricter") and (dialect, kind) not in KNOWN:
                unknown.append((dialect, kind, one, theirs, ours))
    text = "\n".join(table(arguments, version, counts, cut)) + "\n"
    print(text)
    if arguments.table:
        arguments.table.write_text(text)
    shown = {}
    for dialect, kind, one, theirs, ours in unknown:
        shown[dialect, kind] = shown.get((dialect, kind), 0) + 1
        if shown[dialect, kind] <= arguments.show:
            print(f"{dialect}, {kind}: {one!r}\n  upstream {theirs}\n  here     {ours}")
    return 1 if unknown or cut else 0


BEHIND = "What follows the end of calls is text here; upstream leaves it out."
UNCLOSED = "A call whose end mark is broken is read here, and so is what stands around it in another way."
WITHIN = "A mark within a text of an argument ends no call here."
ALONE = "A mark without anything behind it is left out here."
# Why the rest differs, by dialect and kind.
KNOWN = {
    ("Hermes", "text"): BEHIND,
    ("Hermes", "here"): WITHIN,
    ("Qwen3Coder", "here"): "A name has any characters here. No tool has this one.",
    ("Llama3Json", "text"): "Upstream leaves out the text before calls.",
    ("Llama4Pythonic", "calls"): "Rare escapes of Python, such as `\\a`, stay as they are here.",
    ("Mistral", "calls"): "Upstream reads the first list alone.",
    ("Granite/20b", "calls"): "Upstream's two parsers of Granite know one mark each; here a turn may begin calls with "
                              "either.",
    ("Qwen3Coder", "text"): "An end without a call is left out here.",
    ("Qwen3Coder", "calls"): "A parameter without its end is read here, and keeps white space within it.",
    ("Llama3Json", "here"): "Text behind calls is left out here; upstream takes all of it for text. A call of "
                            "no arguments may leave them out.",
    ("Llama3Json", "upstream"): "An object behind text is text here: a call is the whole turn of these models.",
    ("Llama4Pythonic", "here"): "Upstream knows no negative numbers, no comma at the end, and no blank before a "
                                "parenthesis.",
    ("Mistral", "here"): "Upstream fails at a mark within a text of an argument, and reads one list alone.",
    ("Mistral", "text"): "Upstream leaves text out before a mark without calls.",
    ("Mistral/v11", "calls"): "A name ends at a bracket here, and what follows an object is another call. "
                              "Upstream hands out arguments that are not JSON.",
    ("Mistral/v11", "here"): "Upstream fails at what is not JSON.",
    ("DeepSeek", "text"): BEHIND,
    ("DeepSeek", "here"): UNCLOSED,
    ("DeepSeek", "calls"): UNCLOSED,
    ("DeepSeek/V3", "text"): BEHIND,
    ("DeepSeek/V3", "here"): UNCLOSED,
    ("DeepSeek/V3", "calls"): UNCLOSED,
    ("Phi4", "text"): "Upstream leaves out the text before calls.",
    ("Phi4", "here"): "Upstream ends the list at its first bracket, and so loses calls with lists in them.",
    ("Phi4", "calls"): "Upstream ends the list at its first bracket, and so loses calls with lists in them.",
    ("Granite", "text"): ALONE,
    ("Granite", "here"): "Upstream reads calls only at the beginning of a turn, and only where nothing follows them.",
    ("Granite/20b", "text"): ALONE,
    ("Granite/20b", "here"): "Upstream reads none where one of several is broken; here a mark alone is left out.",
}


def table(arguments, version, counts, cut):
    """The results for people."""
    kinds = list(OUTCOMES)
    yield "# Outputs that were changed at random, beside vLLM's parsers"
    yield ""
    yield (f"`make parser-parity` writes this file. {arguments.mutants:,} mutants of the outputs that it records were "
           "read by the parsers")
    yield f"of vLLM {version} and by the agent runtime's. Each has one to three changes (seed {arguments.seed})."
    yield "Each mutant is also read here character by character, " + (
        "which made no difference." if not cut else f"which made a difference {cut} times."
    )
    yield ""
    yield from (f"- **{kind}**: {told}." for kind, told in OUTCOMES.items())
    yield ""
    yield "| dialect | " + " | ".join(kinds) + " |"
    yield "|---" * (len(kinds) + 1) + "|"
    for dialect in PARSERS:
        yield f"| {dialect} | " + " | ".join(f"{counts.get((dialect, kind), 0):,}" for kind in kinds) + " |"
    sums = [sum(counts.get((dialect, kind), 0) for dialect in PARSERS) for kind in kinds]
    yield "| all | " + " | ".join(f"{count:,}" for count in sums) + " |"
    yield ""
    yield "Why they differ:"
    yield ""
    for (dialect, kind), why in KNOWN.items():
        if counts.get((dialect, kind)):
            yield from textwrap.wrap(f"- {dialect}, {kind}: {why}", 118, subsequent_indent="  ")


if __name__ == "__main__":
    main()
