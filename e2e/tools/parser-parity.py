#!/usr/bin/env python3
"""Records what vLLM's own parsers of tool calls and thoughts read, for agent-runtime/tests/runtime/parsers.rs.

Usage: parser-parity.py --wheel vllm-*.whl --folder FOLDER --write FILE.json. The wheel is vLLM's, as `pip download
--no-deps vllm==0.25.0` fetches it. FOLDER keeps an environment with the packages that the parsers compute with, and
the vocabulary of gpt-oss, both outside the checkout.

With --mutants outputs are changed at random, and both read them: --reader is the agent runtime's example read_turns,
and --table the file that says how often both read the same, and why not. It exits with 1 where no reason is known.
With --only some dialects alone are compared; nothing is written then.
"""

import argparse
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import textwrap
import venv
from importlib import metadata
from pathlib import Path

from parsers import upstream
from parsers.outputs import mutant, outputs

NEEDED = [
    "transformers==5.23.0", "openai==3.57.0", "regex", "partial-json-parser", "pydantic-settings", "msgspec",
    "openai-harmony==0.0.8",
]


def enter_environment(folder):
    """Runs this program again in an environment of its own."""
    python = folder / "venv" / "bin" / "python"
    complete = folder / "venv" / "complete"
    if not complete.exists():
        venv.create(folder / "venv", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *NEEDED], check=True)
        complete.touch()
    if Path(sys.prefix).resolve() != (folder / "venv").resolve():
        os.execv(python, [str(python), *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", required=True)
    parser.add_argument("--folder", type=Path, required=True, help="where packages are kept")
    parser.add_argument("--write", type=Path, help="the record of what upstream reads")
    parser.add_argument("--mutants", type=int, default=0, help="outputs that are changed at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", help="the example read_turns")
    parser.add_argument("--table", type=Path, help="what came of the mutants")
    parser.add_argument("--only", action="append", help="a dialect to compare")
    parser.add_argument("--show", type=int, default=3, help="differences without a reason to print, of each kind")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    enter_environment(arguments.folder)
    logging.disable(logging.CRITICAL)
    version = Path(arguments.wheel).name.split("-")[1]
    with tempfile.TemporaryDirectory() as folder:
        upstream.harmony.prepare(arguments.folder)
        upstream.load(arguments.wheel, folder)
        if arguments.write and not arguments.only:
            arguments.write.write_text(record(version))
        if arguments.mutants:
            sys.exit(compare(arguments, version))


def record(version):
    """What upstream reads of the outputs, a line each."""
    def lines(cases):
        return ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)

    versions = {
        "vllm": version,
        "openaiHarmony": metadata.version("openai-harmony"),
        "vocabulary": upstream.harmony.PACKAGE,
        "thinkingParsers": upstream.thinking_parsers(),
    }
    calls = lines(upstream.answer(dialect, output) for dialect in upstream.DIALECTS for output in outputs(dialect))
    thoughts = lines(upstream.thoughts())
    return f'{json.dumps(versions)[:-1]}, "cases": [\n{calls}\n], "thoughts": [\n{thoughts}\n]}}\n'


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
        thoughts = (theirs.get("thoughts") or "").strip()
        return "alike" if (text, thoughts) == (ours["text"].strip(), ours["thoughts"]) else "text"
    if not calls:
        return "here"
    return "calls" if ours["calls"] else "upstream"


OUTCOMES = {
    "alike": "both read the same text and calls",
    "told": "the call has a mistake, which the model is told here; upstream hands the output out as text, or nothing",
    "stricter": "the same, and upstream hands calls out",
    "text": "the same calls, and another text or other thoughts",
    "here": "calls here, and none upstream",
    "upstream": "calls upstream, and none here",
    "calls": "other calls",
}


def compare(arguments, version):
    """Compares mutants of every dialect; returns the exit status."""
    rolls = random.Random(arguments.seed)
    counts, unknown, cut = {}, [], 0
    dialects = arguments.only or upstream.DIALECTS
    for number, dialect in enumerate(dialects):
        share = (arguments.mutants * (number + 1)) // len(dialects) - (arguments.mutants * number) // len(dialects)
        mutants = [mutant(rolls, dialect) for _ in range(share)]
        common = {"dialect": dialect.split("/")[0], "tools": ["look", "order"]}
        asked = "".join(json.dumps(common | {"output": one}) + "\n" for one in mutants)
        read = subprocess.run([arguments.reader], input=asked.encode(), stdout=subprocess.PIPE, check=True)
        for one, line in zip(mutants, read.stdout.splitlines(), strict=True):
            theirs, ours = upstream.answer(dialect, one), json.loads(line)
            kind = outcome(theirs, ours)
            cut += not ours["same"]
            counts[dialect, kind] = counts.get((dialect, kind), 0) + 1
            if kind not in ("alike", "told", "stricter") and (dialect, kind) not in KNOWN:
                unknown.append((dialect, kind, one, theirs, ours))
    text = "\n".join(table(arguments, version, counts, cut)) + "\n"
    print(text)
    if arguments.table and not arguments.only:
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
    ("Llama3Json", "upstream"): "Behind text, an object within a line or with the name of no tool is text here.",
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
    ("Granite", "upstream"): "A list without a mark is text here where it names no tool.",
    ("Harmony", "text"): "A message of an unknown channel, or behind a broken header, is text here; upstream loses it or "
                         "fails. A cut header is nothing here, and text upstream. A mark within a message ends it here.",
    ("Harmony", "here"): "A call behind a broken header is read here; upstream loses it or fails. Every recipient is a "
                         "tool here, whose name the model is told to correct.",
    ("Harmony", "upstream"): "Upstream takes any word of a broken header for the name of a function.",
    ("Harmony", "calls"): "A name, and arguments, end at a mark here. Upstream loses calls behind a broken header, or "
                          "takes any word of it for a name.",
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
    yield (f"Harmony is read as tokens by openai-harmony {metadata.version('openai-harmony')}, with the vocabulary of "
           f"`{upstream.harmony.PACKAGE}`.")
    yield "A model cannot write a mark of gpt-oss in part, so that its mutants have these marks whole."
    yield "Of its mutants thoughts are compared as well. Of the recorded outputs thoughts are compared by these parsers:"
    yield ""
    yield from (f"- {dialect}: `{parser}`" for dialect, parser in upstream.thinking_parsers().items())
    yield ""
    yield from (f"- **{kind}**: {told}." for kind, told in OUTCOMES.items())
    yield ""
    yield "| dialect | " + " | ".join(kinds) + " |"
    yield "|---" * (len(kinds) + 1) + "|"
    for dialect in upstream.DIALECTS:
        yield f"| {dialect} | " + " | ".join(f"{counts.get((dialect, kind), 0):,}" for kind in kinds) + " |"
    sums = [sum(counts.get((dialect, kind), 0) for dialect in upstream.DIALECTS) for kind in kinds]
    yield "| all | " + " | ".join(f"{count:,}" for count in sums) + " |"
    yield ""
    yield "Why they differ:"
    yield ""
    for (dialect, kind), why in KNOWN.items():
        if counts.get((dialect, kind)):
            yield from textwrap.wrap(f"- {dialect}, {kind}: {why}", 118, subsequent_indent="  ")


if __name__ == "__main__":
    main()
