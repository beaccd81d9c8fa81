#!/usr/bin/env python3
"""Compares the agent runtime's chat templates with transformers, byte for byte.

Renders templates of many models with both: those in the source package of llama-cpp-python and vLLM's examples for tools.
Both packages are fetched from the package registry with pip into a folder outside the checkout; no template is ever
committed. Usage: template-parity.py --renderer BINARY --folder FOLDER [--write FILE.md]

Exits with 1 where anything differs for a reason that is not known.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

LLAMA_CPP_PYTHON = "0.3.16"
VLLM = "0.25.0"
TRANSFORMERS = "5.23.0"
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
# 2026-11-09 10:11:12 UTC: a day and a month of one and two digits.
NOW = datetime.datetime(2026, 11, 9, 10, 11, 12)
NOW_SECONDS = int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp())


def function(name, description, properties, required):
    """A tool as clients describe it."""
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


WEATHER = function(
    "get_weather",
    "The weather of a city — today's, in \"plain\" words.",
    {
        "city": {"type": "string", "description": "Name of the city, such as Zürich"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
    },
    ["city"],
)
ORDER = function(
    "place_order",
    "Places an order & returns its <number>.",
    {
        "lines": {
            "type": "array",
            "description": "What is ordered",
            "items": {
                "type": "object",
                "properties": {"item": {"type": "string"}, "count": {"type": "integer", "minimum": 1}},
                "required": ["item"],
            },
        },
        "discount": {"type": "number", "default": 0.05},
        "express": {"type": ["boolean", "null"], "default": None},
    },
    ["lines"],
)
CLOCK = function("clock", "Tells the time.", {}, [])


def call(name, arguments, identity):
    """A tool call of an assistant's message."""
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **others):
    return {"role": "assistant", "content": content, **others}


def system(content):
    return {"role": "system", "content": content}


def tool(name, content, identity):
    return {"role": "tool", "name": name, "content": content, "tool_call_id": identity}


QUESTION = user("What is the weather in Zürich?")
ODD = "Line one\n\n  <b>\"two\"</b> & 'three' \\ \t 🙂 <|im_end|> {{ x }} {% y %}\u2028end  "
ARGUMENTS = {"city": "Zürich", "unit": "celsius"}
ONE_CALL = [
    QUESTION,
    assistant("", tool_calls=[call("get_weather", ARGUMENTS, "abcdef123")]),
    tool("get_weather", '{"degrees": 21.5, "sky": "klar"}', "abcdef123"),
]
TWO_CALLS = [
    system("Answer briefly."),
    QUESTION,
    assistant(
        "Let me look.",
        tool_calls=[
            call("get_weather", ARGUMENTS, "abcdef123"),
            call(
                "place_order",
                {"lines": [{"item": "umbrella", "count": 2}], "discount": 1e-05, "express": None},
                "ghijkl456",
            ),
        ],
    ),
    tool("get_weather", "21", "abcdef123"),
    tool("place_order", "ordered", "ghijkl456"),
    assistant("It is 21 degrees, and the umbrella is on its way."),
    user("Thanks. And tomorrow?"),
]


def conversations():
    """Names, messages, tools and further variables."""
    yield "question", [QUESTION], None, {}
    yield "system", [system("Answer briefly."), QUESTION], None, {}
    yield "developer", [{"role": "developer", "content": "Answer briefly."}, QUESTION], None, {}
    yield "turns", [system("S"), user("1+1?"), assistant("2"), user("2+2?"), assistant("4"), user("3+3?")], None, {}
    yield "ends with an answer", [user("1+1?"), assistant("2")], None, {}
    yield "odd characters", [system(ODD), user(ODD), assistant(ODD), user(ODD)], None, {}
    yield "empty texts", [system(""), user(""), assistant(""), user(" ")], None, {}
    yield "parts", [user([{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}])], None, {}
    yield "thoughts in the text", [user("1+1?"), assistant("<think>\nEasy.\n</think>\n\n2"), user("2+2?")], None, {}
    for field in ["reasoning_content", "reasoning", "thinking"]:
        messages = [user("1+1?"), assistant("2", **{field: "Easy.\n"}), user("2+2?")]
        yield f"thoughts in {field}", messages, None, {}
    yield "two users", [user("1"), user("2")], None, {}
    yield "greeting", [assistant("Hello!"), user("1")], None, {}
    yield "no thinking", [system("S"), user("1+1?")], None, {"enable_thinking": False}
    yield "thinking", [user("1+1?")], None, {"enable_thinking": True, "thinking": True}
    yield "effort", [user("1+1?")], None, {"reasoning_effort": "high"}
    yield "no tools", [QUESTION], [], {}
    yield "tools", [QUESTION], [WEATHER], {}
    yield "tools and system", [system("Answer briefly."), QUESTION], [WEATHER, ORDER, CLOCK], {}
    yield "call", ONE_CALL[:2], [WEATHER], {}
    yield "call and result", ONE_CALL, [WEATHER], {}
    yield "call and answer", [*ONE_CALL, assistant("21.5 degrees.")], [WEATHER, ORDER], {}
    yield "call without a text", [QUESTION, assistant(None, tool_calls=ONE_CALL[1]["tool_calls"]), ONE_CALL[2]], [WEATHER], {}
    bare = {"role": "assistant", "tool_calls": ONE_CALL[1]["tool_calls"]}
    yield "call without content", [QUESTION, bare, ONE_CALL[2]], [WEATHER], {}
    written = assistant("", tool_calls=[call("get_weather", json.dumps(ARGUMENTS), "abcdef123")])
    yield "arguments as a text", [QUESTION, written, ONE_CALL[2]], [WEATHER], {}
    yield "call without arguments", [QUESTION, assistant("", tool_calls=[call("clock", {}, "abcdef123")])], [CLOCK], {}
    yield "parallel calls and turns", TWO_CALLS, [WEATHER, ORDER, CLOCK], {}
    yield "results as objects", [*ONE_CALL[:2], tool("get_weather", {"degrees": 21.5}, "abcdef123")], [WEATHER], {}
    thought = assistant("", reasoning_content="Look it up.", thinking="Look it up.", tool_calls=ONE_CALL[1]["tool_calls"])
    yield "thoughts and a call", [QUESTION, thought, ONE_CALL[2]], [WEATHER], {}
    yield "many odd results", [*ONE_CALL[:2], tool("get_weather", ODD, "abcdef123"), assistant(ODD), user(ODD)], [WEATHER], {}


def cases():
    """Every conversation, with and without the beginning of the model's turn."""
    for name, messages, tools, extra in conversations():
        for prompt in [False, True]:
            yield {"name": name, "messages": messages, "tools": tools, "generationPrompt": prompt, "extra": extra}


def functions_and_time(case):
    """Tools and time as the model card of FireFunction passes them."""
    return {"functions": json.dumps(case["tools"] or [], indent=4), "datetime": NOW.strftime("%Y-%m-%d %H:%M:%S UTC")}


# What templates need besides what every client passes.
VARIABLES = {"fireworks-ai-llama-3-firefunction-v2": functions_and_time}


def cases_of(name):
    """Every conversation, with the variables that a template needs."""
    variables = VARIABLES.get(name, lambda case: {})
    return [{**case, "extra": {**case["extra"], **variables(case)}} for case in cases()]


def fetch(folder, python, package, version):
    """Downloads a source package once, and returns the archive."""
    found = list(folder.glob(f"{package.replace('-', '_')}-{version}*.tar.gz"))
    if not found:
        # pip asks a source package for its metadata. vLLM's answers only where there is a torch, and names itself by its target.
        stub = folder / "stub" / "torch"
        (stub / "utils").mkdir(parents=True, exist_ok=True)
        (stub / "__init__.py").write_text("from . import version\n__version__ = '0'\n")
        (stub / "version.py").write_text("cuda = None\nhip = None\n")
        (stub / "utils" / "__init__.py").write_text("")
        (stub / "utils" / "cpp_extension.py").write_text("CUDA_HOME = None\nROCM_HOME = None\n")
        path = f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"
        target = {"VLLM_TARGET_DEVICE": "empty", "VLLM_VERSION_OVERRIDE": version}
        environment = {**os.environ, **target, "PATH": path, "PYTHONPATH": str(stub.parent)}
        command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        command += ["--no-build-isolation", "--dest", str(folder), f"{package}=={version}"]
        subprocess.run(command, check=True, env=environment)
        found = list(folder.glob(f"{package.replace('-', '_')}-{version}*.tar.gz"))
    return found[0]


def templates(folder, python):
    """Name and text of every template."""
    sources = [
        ("llama-cpp-python", LLAMA_CPP_PYTHON, "/vendor/llama.cpp/models/templates/"),
        ("vllm", VLLM, "/examples/"),
    ]
    for package, version, place in sources:
        with tarfile.open(fetch(folder, python, package, version)) as archive:
            for member in sorted(archive, key=lambda member: member.name):
                if place in member.name and member.name.endswith(".jinja"):
                    yield package, Path(member.name).stem, archive.extractfile(member).read().decode()


def reference(template, case):
    """What transformers renders."""
    from transformers.utils import chat_template_utils
    import jinja2

    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(*NOW.timetuple()[:6])

    chat_template_utils.datetime = Clock
    try:
        texts, _ = chat_template_utils.render_jinja_template(
            conversations=[case["messages"]],
            tools=case["tools"],
            chat_template=template,
            add_generation_prompt=case["generationPrompt"],
            **TOKENS,
            **case["extra"],
        )
        return {"text": texts[0]}
    except jinja2.exceptions.TemplateError as error:
        kind = "refused" if type(error) is jinja2.exceptions.TemplateError else "failed"
        return {kind: str(error)}
    except Exception as error:  # a template may fail in any way that Python can
        return {"failed": f"{type(error).__name__}: {error}"}


def ours(renderer, asked):
    """What the agent runtime renders."""
    lines = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in asked)
    answer = subprocess.run([renderer], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in answer.stdout.splitlines()]


def outcome(expected, found):
    """What a pair counts as. Where transformers fails with an exception of Python's, there is nothing to be equal to."""
    if expected == found:
        return "text" if "text" in expected else "refused"
    if "failed" in expected:
        return "failed" if "failed" in found else "rendered"
    return "different"


OUTCOMES = ["text", "refused", "failed", "rendered", "different"]


def compare(arguments):
    """Compares every template; returns the rows of the table and the differences."""
    rows, differences = [], []
    for package, name, template in templates(arguments.folder, sys.executable):
        every = cases_of(name)
        asked = [{"template": template, "specialTokens": TOKENS, "nowSeconds": NOW_SECONDS, **case} for case in every]
        found = ours(arguments.renderer, asked)
        pairs = [(case, reference(template, case), one) for case, one in zip(every, found, strict=True)]
        outcomes = [outcome(expected, one) for _, expected, one in pairs]
        rows.append((package, name, *(outcomes.count(kind) for kind in OUTCOMES)))
        differences += [(package, name, *pair) for pair, kind in zip(pairs, outcomes) if kind == "different"]
    return rows, differences


def table(rows):
    """The results for people."""
    import transformers

    yield "# Chat templates beside transformers"
    yield ""
    yield "`make template-parity` writes this file. It renders each template with the agent runtime and with transformers"
    yield f"{transformers.__version__}, {sum(1 for _ in cases())} prompts each, and compares the bytes."
    yield ""
    yield f"The templates are those of `llama-cpp-python` {LLAMA_CPP_PYTHON} and of vLLM {VLLM}, as their source packages have them."
    yield f"{' and '.join(sorted(VARIABLES))} also gets `functions` and `datetime`, without which it fails."
    yield ""
    yield "- **equal**: both write the same text."
    yield "- **refused**: the template refuses the prompt by `raise_exception`, in both in the same words."
    yield "- **both fail**: transformers fails with an exception, such as for a text that is added to a list. So do we."
    yield "- **we render**: transformers fails so, and we render. There is nothing to be equal to."
    yield "- **different**: anything else. Nothing may be."
    yield ""
    yield "| package | template | equal | refused | both fail | we render | different |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"
    totals = [str(sum(row[i] for row in rows)) for i in range(2, 2 + len(OUTCOMES))]
    yield f"| all | {len(rows)} templates | {' | '.join(totals)} |"


def enter_environment(folder):
    """Runs this program again in an environment of its own that has transformers."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
        needed = [f"transformers=={TRANSFORMERS}", "jinja2", "scikit-build-core", "cmake", "ninja", "setuptools", "wheel"]
        needed += ["setuptools-scm", "setuptools-rust", "grpcio-tools", "packaging"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *needed], check=True)
    if Path(sys.prefix).resolve() != (folder / "venv").resolve():
        os.execv(python, [str(python), *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--renderer", required=True, help="the example render_templates of the agent runtime")
    parser.add_argument("--folder", type=Path, required=True, help="where packages are kept")
    parser.add_argument("--write", type=Path, help="the table of results")
    parser.add_argument("--show", type=int, default=3, help="differences to print")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    enter_environment(arguments.folder)
    rows, differences = compare(arguments)
    text = "\n".join(table(rows)) + "\n"
    print(text)
    if arguments.write:
        arguments.write.write_text(text)
    for package, name, case, expected, found in differences[: arguments.show]:
        print(f"{package} {name}, {case['name']}, generationPrompt {case['generationPrompt']}:")
        print(f"  transformers: {expected!r}\n  agent runtime: {found!r}")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
