"""How questions are worded: a frame around a core, both drawn; the combination belongs to one side of the split.

A core's letters: a, b, c entities; p, q properties; r a relation; x, y, w, z numbers.
"""

from corpus.draw import Draw
from corpus.split import Kind, split_of

_OPENINGS = (
    "", "", "", "", "", "", "Hi. ", "Hello! ", "Quick question: ", "One more thing: ", "I need a number. ", "Hey, ",
    "Good morning. ", "For my report: ", "A colleague asks: ", "Please help. ", "Help me out here. ", "Dear agent, ",
)
_CLOSINGS = (
    "", "", "", "", "", "", " Thanks!", " Thank you.", " Please be brief.", " Just the number, please.",
    " I need it today.", " Answer shortly.", " Use the tools.", " It is urgent.",
)
_ASK = (
    "What is {}?", "What's {}?", "Tell me {}.", "Find {}.", "Please find {}.", "Look up {}.", "I want to know {}.",
    "Could you tell me {}?", "Can you find {}?", "Do you know {}?", "Give me {}.", "Show me {}", "{}?",
    "I would like to know {}.", "Please report {}.", "Let me know {}.",
)
_COMPUTE = (
    "What is {}?", "What's {}?", "Compute {}.", "How much is {}?", "Calculate {}.", "Please compute {}.", "{}?",
    "Work out {}.", "Can you calculate {}?", "Tell me {}.", "Give me {}.", "Could you work out {}?",
    "I need {}.", "Find {}.", "Please tell me {}.",
)

CORES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "lookup": (_ASK, ("the {p} of {a}", "{a}'s {p}", "the {p} that {a} has", "the {p} for {a}", "the {p} at {a}")),
    "plus": (_COMPUTE, ("{x}+{y}", "{x} + {y}", "{x} plus {y}", "the sum of {x} and {y}")),
    "minus": (_COMPUTE, ("{x}-{y}", "{x} - {y}", "{x} minus {y}", "the difference of {x} and {y}")),
    "times": (_COMPUTE, ("{x}*{y}", "{x} * {y}", "{x} times {y}", "the product of {x} and {y}", "{x} x {y}")),
    "over": (_COMPUTE, ("{x}/{y}", "{x} / {y}", "{x} divided by {y}", "{x} over {y}")),
    "three_terms": (_COMPUTE, ("{x} plus {y} minus {w}", "{x}+{y}-{w}", "{x} + {y} - {w}")),
    "total": (_COMPUTE, (
        "the total {p} of {a} and {b}", "the sum of the {p} of {a} and {b}", "the {p} of {a} plus the {p} of {b}",
        "the combined {p} of {a} and {b}", "{a}'s and {b}'s {p} together", "the {p} of {a} and {b} in total",
        "the {p} of {a} added to that of {b}",
    )),
    "difference": (("{}",), (
        "How much larger is the {p} of {a} than that of {b}?", "By how much does the {p} of {a} exceed {b}'s?",
        "How much more {p} does {a} have than {b}?", "What is the {p} of {a} minus the {p} of {b}?",
        "Subtract the {p} of {b} from the {p} of {a}.", "How far is {a}'s {p} above {b}'s?",
        "What is the difference in {p} between {a} and {b}?", "Compute {a}'s {p} minus {b}'s.",
        "How much higher is {a}'s {p} than {b}'s?",
    )),
    "ratio": (_COMPUTE, (
        "the {p} of {a} divided by the {p} of {b}", "the ratio of {a}'s {p} to {b}'s",
        "the ratio of the {p} of {a} to that of {b}", "{a}'s {p} over {b}'s {p}",
    )),
    "average": (_COMPUTE, (
        "the average {p} of {a} and {b}", "the mean {p} of {a} and {b}", "the average of the {p} of {a} and {b}",
        "the {p} of {a} and {b} on average",
    )),
    "scaled": (_COMPUTE, (
        "{z} times the {p} of {a}", "the {p} of {a} times {z}", "{a}'s {p} multiplied by {z}", "{z} times {a}'s {p}",
        "the product of {z} and the {p} of {a}",
    )),
    "shifted": (_COMPUTE, (
        "the {p} of {a} plus {z}", "{a}'s {p} increased by {z}", "the {p} of {a} with {z} added", "{a}'s {p} plus {z}",
    )),
    "percent": (_COMPUTE, (
        "{z} percent of the {p} of {a}", "{z}% of {a}'s {p}", "{z} % of the {p} of {a}", "{z} percent of {a}'s {p}",
    )),
    "total_of_three": (_COMPUTE, (
        "the combined {p} of {a}, {b} and {c}", "the total {p} of {a}, {b} and {c}", "the {p} of {a} plus {b} plus {c}",
        "the sum of the {p} of {a}, {b} and {c}", "the {p} of {a}, {b} and {c} together",
    )),
    "average_of_three": (_COMPUTE, (
        "the average {p} of {a}, {b} and {c}", "the mean {p} of {a}, {b} and {c}",
        "the {p} of {a}, {b} and {c} on average",
    )),
    "two_properties": (_COMPUTE, (
        "the sum of the {p} and the {q} of {a}", "the {p} of {a} plus its {q}", "{a}'s {p} plus its {q}",
        "{a}'s {p} and {q} added up", "the {p} plus the {q} of {a}",
    )),
    "product_of_properties": (_COMPUTE, (
        "the {p} of {a} times its {q}", "{a}'s {p} times its {q}", "the product of {a}'s {p} and {q}",
        "the {p} multiplied by the {q} of {a}",
    )),
    "both": (_ASK, ("the {p} and the {q} of {a}", "{a}'s {p} and {q}", "both the {p} and the {q} of {a}")),
    "hop": (_ASK, (
        "the {p} of the {r} of {a}", "the {p} of {a}'s {r}", "the {p} that the {r} of {a} has",
        "the {p} for the {r} of {a}",
    )),
    "hop_scaled": (_COMPUTE, (
        "{z} times the {p} of the {r} of {a}", "{z} times the {p} of {a}'s {r}", "the {p} of {a}'s {r} times {z}",
    )),
    "larger": (("{}",), (
        "Which has the larger {p}, {a} or {b}?", "Whose {p} is larger, {a}'s or {b}'s?",
        "Who has more {p}: {a} or {b}?",
        "Is the {p} of {a} or of {b} higher?", "Which of {a} and {b} has the higher {p}?",
        "Between {a} and {b}, which has the greater {p}?",
    )),
    "smaller": (("{}",), (
        "Which has the smaller {p}, {a} or {b}?", "Whose {p} is smaller, {a}'s or {b}'s?",
        "Who has less {p}: {a} or {b}?",
        "Is the {p} of {a} or of {b} lower?", "Which of {a} and {b} has the lower {p}?",
        "Between {a} and {b}, which has the lesser {p}?",
    )),
    "total_then_scale": (("{}",), (
        "Add the {p} of {a} and {b}, then multiply by {z}.", "What is {z} times the total {p} of {a} and {b}?",
        "Multiply the combined {p} of {a} and {b} by {z}.", "Take the {p} of {a} and {b} together, times {z}.",
    )),
    "three_then_scale": (("{}",), (
        "Add the {p} of {a}, {b} and {c}, then multiply by {z}.",
        "What is {z} times the total {p} of {a}, {b} and {c}?",
        "Multiply the combined {p} of {a}, {b} and {c} by {z}.",
    )),
    "above_two": (("{}",), (
        "How much larger is the {p} of {a} than that of {b} and {c} together?",
        "By how much does the {p} of {a} exceed the total of {b} and {c}?",
        "What is the {p} of {a} minus the combined {p} of {b} and {c}?",
    )),
    "same_property": (("{}",), (
        "And of {b}?", "And {b}'s?", "What about {b}?", "How about {b}?", "And for {b}?", "The same for {b}, please.",
        "Now {b}.", "And {b}?", "What is it for {b}?",
    )),
    "same_entity": (("{}",), (
        "And its {q}?", "What about its {q}?", "What is its {q}?", "And the {q}?", "Now its {q}, please.",
        "Tell me its {q} too.", "How about the {q}?",
    )),
    "scale_that": (("{}",), (
        "Multiply that by {z}.", "What is that times {z}?", "And {z} times that?", "Times {z}?",
        "Now multiply it by {z}.",
    )),
    "shift_that": (("{}",), (
        "Add {z} to that.", "What is that plus {z}?", "Plus {z}?", "Now add {z}.", "And with {z} added?",
    )),
    "reduce_that": (("{}",), (
        "Subtract {z} from that.", "What is that minus {z}?", "Minus {z}?", "Now subtract {z}.", "And {z} less?",
    )),
}
"""Core wordings and the frames they fit into, for each kind of question."""


def phrase(draw: Draw, kind: str, fields: dict[str, str]) -> str:
    """Words a question of `kind` with `fields`, from the phrasings of the draw's split."""
    frames, cores = CORES[kind]
    while True:
        core = draw.pick(frames).format(draw.pick(cores))
        skeleton = draw.pick(_OPENINGS) + _recased(draw, core) + draw.pick(_CLOSINGS)
        if split_of(Kind.PHRASING, skeleton) is draw.split:
            return skeleton.format(**fields)


def _recased(draw: Draw, core: str) -> str:
    """Varies the first letter's case, and drops the final mark one time in eight."""
    first = core[0].lower() if draw.chance(0.15) else core[0].upper()
    ending = core[1:-1] if core[-1] in ".?" and draw.chance(0.125) else core[1:]
    return first + ending
