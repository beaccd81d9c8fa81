"""Outputs of models, whole and with changes, which both the agent runtime and vLLM's parsers read."""

import functools
import json
import re

MARKS = [
    "<tool_call>", "</tool_call>", "<|python_tag|>", "<|python_start|>", "<|python_end|>", "[TOOL_CALLS]", "[ARGS]",
    "[CALL_ID]", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>",
    "<｜tool▁sep｜>", "<think>", "</think>", "<|tool_call|>", "<function_call>",
]
# The marks of gpt-oss, which are tokens of its vocabulary.
CHANNEL_MARKS = [
    "<|start|>assistant", "<|channel|>analysis", "<|channel|>commentary", "<|channel|>final", "<|message|>", "<|end|>",
    "<|call|>", "<|return|>", "<|constrain|>", " to=functions.look",
]


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
        case "Harmony":
            return NEXT.join(
                f"<|channel|>commentary to=functions.{n} <|constrain|>json<|message|>{a}<|call|>" for n, a in plain
            )


def outputs(dialect):
    """Outputs of a dialect: calls, text before them, text alone, and calls with mistakes."""
    for calls in CALLS:
        yield encode(dialect, calls)
    is_harmony = dialect == "Harmony"
    preamble = f"<|channel|>commentary<|message|>Let me look.<|end|>{NEXT}" if is_harmony else "Let me look.\n"
    for calls in CALLS[:3]:
        yield preamble + encode(dialect, calls)
    yield from ((f"<|channel|>final<|message|>{text}<|return|>" if is_harmony else text) for text in TEXTS)
    one = encode(dialect, CALLS[0])
    yield from [one[:-1], one[: len(one) // 2], one.replace('"', "", 1), one.replace("look", "", 1)]
    if is_harmony:
        yield from HARMONY


NEXT = "<|start|>assistant"
THOUGHT = "<|channel|>analysis<|message|>Hm.<|end|>"
FINAL = "<|channel|>final<|message|>It is 5."
HARMONY = [
    # As models write them.
    FINAL + "<|return|>",
    THOUGHT + NEXT + FINAL,
    THOUGHT + NEXT + "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{}<|call|>",
    " to=functions.look<|channel|>commentary json<|message|>{}<|call|>",
    "<|channel|>analysis to=functions.look <|constrain|>json<|message|>{}<|call|>",
    THOUGHT + NEXT + "<|channel|>analysis<|message|>Yes.<|end|>" + NEXT + FINAL + "<|return|>",
    "<|channel|>commentary<|message|>First a look.<|end|>" + NEXT + FINAL + "<|return|>",
    "<|channel|>commentary<|message|>One.<|end|>" + NEXT + "<|channel|>commentary<|message|>Two.<|end|>" + NEXT
    + "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{}<|call|>",
    "<|channel|>final <|constrain|>json<|message|>{}<|return|>",
    "<|channel|>final<|message|>It is\n\n5 < 6 | 7.\n<|return|>",
    # With mistakes.
    "Just a text <b>.",
    "<|message|>It is 5.",
    "<|channel|>final<|message|>",
    "<|channel|>analysis<|message|><|end|>" + NEXT + FINAL,
    FINAL + "<|end|>More.",
    FINAL + "<|channel|>final<|message|>More.",
    FINAL + NEXT + "<|channel|>final<|message|>More.",
    "<|channel|>other<|message|>It is 5.<|return|>",
    "<|channel|>analysis to=python<|message|>print(1)<|call|>",
    "<|channel|>commentary to=assistant<|message|>{}<|call|>",
    "<|channel|>commentary to=look<|message|>{}<|call|>",
    "<|channel|>commentary to=functions.<|message|>{}<|call|>",
    "<|channel|>commentary to=functions.look code<|message|>x = 1<|call|>",
    "<|channel|>commentary to=functions.look<|constrain|>json<|message|>{}<|call|>",
    "<|start|>functions.look to=assistant<|channel|>commentary<|message|>{}<|end|>" + NEXT + FINAL,
    # Cut.
    "<|channel|>fin",
    "<|channel|>commentary to=functions.lo",
    "<|channel|>commentary to=functions.look <|constrain|>json<|message|>{\"city\": \"Be",
    "<|channel|>analysis<|message|>Hm",
    THOUGHT + NEXT,
]


def granite_thinking_outputs():
    """Outputs with thoughts as Granite 3.2 writes them."""
    here_is, here_s = [(f"{here} my thought process:", f"{here} my response:") for here in ("Here is", "Here's")]
    for begin, end in (here_is, here_s):
        yield from (f"{begin}{thoughts}{end}{ANSWERS[1]}" for thoughts in THOUGHTS)
        yield from (f"{begin} {THOUGHTS[0]} {end} {answer}" for answer in ANSWERS)
    yield f"{here_is[0]} Hm.\n{here_s[1]} It is 5."
    yield f"{here_is[0]} Hm.\n{here_is[1]} It is 5. {here_is[1]} And 6."
    yield f"\n{here_is[0]} Hm.\n{here_is[1]} It is 5."
    yield f"So. {here_is[0]} Hm.\n{here_is[1]} It is 5."
    yield f"{here_is[0]} Hm."
    yield f"{here_is[0]} Hm.\nHere is my resp"
    yield "Here is my thought"
    yield f"It is 5. {here_is[1]} Yes."
    yield from TEXTS


def thinking_outputs(begin, end):
    """Prompts and outputs with thoughts, which the model or the prompt begins."""
    for prompt, begun in [("", begin), (f"{begin}\n", "")]:
        yield from ((prompt, f"{begun}{thoughts}{end}{ANSWERS[1]}") for thoughts in THOUGHTS)
        yield from ((prompt, f"{begun}{THOUGHTS[0]}{end}{answer}") for answer in ANSWERS)
        yield prompt, f"{begun}{THOUGHTS[0]}"
        yield prompt, f"{begun}{THOUGHTS[0]}{end}{THOUGHTS[0]}{end}"


# Parsers of calls never see marks of thoughts upstream, which other parsers have taken away.
CALL_MARKS = [mark for mark in MARKS if "think" not in mark]


def marks_of(dialect):
    """The marks that mutants of a dialect get."""
    return CHANNEL_MARKS if dialect == "Harmony" else CALL_MARKS


def units_of(dialect, text):
    """What mutants leave whole: characters, and the marks of gpt-oss, which its models cannot write in part."""
    pattern = r"<\|[a-z]+\|>|." if dialect == "Harmony" else "."
    return re.findall(pattern, text, re.DOTALL)


# What stands between the parts of calls.
PUNCTUATION = ["{", "}", "[", "]", '"', "'", "\\", ",", ":", ";", "(", ")", "=", "<", ">", "\n", " ", "```json", "null",
               "é🙂"]


def mutant(rolls, dialect):
    """One of a dialect's outputs with one to three changes, some of which put a mark in."""
    whole = outputs_in_units(dialect)
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
                text = text[:at] + [rolls.choice(PUNCTUATION)] + text[at:]
            case 3:
                text = text[:at] + [rolls.choice(marks_of(dialect))] + text[at:]
            case 4:
                text = text[:at]
            case 5:
                other = rolls.choice(whole)
                text = text[:at] + other[rolls.randint(0, len(other)) :]
    return "".join(text)


@functools.cache
def outputs_in_units(dialect):
    return [units_of(dialect, output) for output in outputs(dialect)]
