"""The kinds of question: what is asked, which calls answer it, what a later turn may refer to."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from corpus.draw import RELATIONS, Draw
from corpus.phrasing import phrase
from corpus.script import Script


@dataclass(frozen=True)
class Topic:
    """What a follow-up question can refer to."""

    answer: str
    entity: str | None = None
    property: str | None = None


@dataclass(frozen=True)
class Task:
    """A question with its solution; `solve` makes the calls and returns the answer."""

    kind: str
    question: str
    solve: Callable[[Script], str]
    entity: str | None = None
    property: str | None = None

    def topic(self, answer: str) -> Topic | None:
        """Returns what may be referred to next; nothing after an answer that is no number."""
        is_number = answer.removeprefix("-").replace(".", "", 1).isdigit()
        return Topic(answer, self.entity, self.property) if is_number else None


def _task(draw: Draw, kind: str, fields: dict[str, str], solve: Callable[[Script], str]) -> Task:
    return Task(kind, phrase(draw, kind, fields), solve)


def _calc_of_two(kind: str, sign: str) -> Callable[[Draw], Task]:
    def make(draw: Draw) -> Task:
        x, y = draw.value(), draw.value()
        if sign == "/" and Fraction(y) == 0:
            y = draw.integer()
        return _task(draw, kind, {"x": x, "y": y}, lambda script: script.calc(f"{x}{sign}{y}", _value(x, sign, y)))

    return make


def _three_terms(draw: Draw) -> Task:
    x, y, w = draw.value(), draw.value(), draw.value()
    result = Fraction(x) + Fraction(y) - Fraction(w)
    return _task(draw, "three_terms", {"x": x, "y": y, "w": w}, lambda script: script.calc(f"{x}+{y}-{w}", result))


def _lookup(draw: Draw) -> Task:
    a, p = draw.name(), draw.property()
    question = phrase(draw, "lookup", {"a": a, "p": p})
    return Task("lookup", question, lambda script: script.lookup(f"{a}.{p}")[0], entity=a, property=p)


def _pair(kind: str, combine: Callable[[str, str], tuple[str, Fraction]]) -> Callable[[Draw], Task]:
    """Two look-ups of one property in parallel, then one calculation."""

    def make(draw: Draw) -> Task:
        (a, b), p = draw.names(2), draw.property()

        def solve(script: Script) -> str:
            return script.calc(*combine(*script.lookup(f"{a}.{p}", f"{b}.{p}")))

        return _task(draw, kind, {"a": a, "b": b, "p": p}, solve)

    return make


def _properties_of_one(kind: str, sign: str) -> Callable[[Draw], Task]:
    def make(draw: Draw) -> Task:
        a, (p, q) = draw.name(), draw.properties(2)

        def solve(script: Script) -> str:
            x, y = script.lookup(f"{a}.{p}", f"{a}.{q}")
            return script.calc(f"{x}{sign}{y}", _value(x, sign, y))

        return _task(draw, kind, {"a": a, "p": p, "q": q}, solve)

    return make


def _both(draw: Draw) -> Task:
    a, (p, q) = draw.name(), draw.properties(2)
    return _task(
        draw, "both", {"a": a, "p": p, "q": q}, lambda script: " and ".join(script.lookup(f"{a}.{p}", f"{a}.{q}"))
    )


def _with_number(kind: str, combine: Callable[[str, str], tuple[str, Fraction]]) -> Callable[[Draw], Task]:
    """One look-up, then one calculation with a number of the question."""

    def make(draw: Draw) -> Task:
        a, p, z = draw.name(), draw.property(), draw.integer(4)

        def solve(script: Script) -> str:
            return script.calc(*combine(script.lookup(f"{a}.{p}")[0], z))

        return _task(draw, kind, {"a": a, "p": p, "z": z}, solve)

    return make


def _triple(kind: str, combine: Callable[[str, str, str], tuple[str, Fraction]]) -> Callable[[Draw], Task]:
    def make(draw: Draw) -> Task:
        (a, b, c), p = draw.names(3), draw.property()

        def solve(script: Script) -> str:
            return script.calc(*combine(*script.lookup(f"{a}.{p}", f"{b}.{p}", f"{c}.{p}")))

        return _task(draw, kind, {"a": a, "b": b, "c": c, "p": p}, solve)

    return make


def _then_scale(kind: str, n_entities: int) -> Callable[[Draw], Task]:
    """Look-ups in parallel, their sum, then the sum times a number: up to five calls."""

    def make(draw: Draw) -> Task:
        names, p, z = draw.names(n_entities), draw.property(), draw.integer(3)

        def solve(script: Script) -> str:
            values = script.lookup(*(f"{name}.{p}" for name in names))
            total = script.calc("+".join(values), sum(map(Fraction, values), Fraction(0)))
            return script.calc(f"{total}*{z}", Fraction(total) * Fraction(z))

        return _task(draw, kind, dict(zip("abc", names)) | {"p": p, "z": z}, solve)

    return make


def _hop(draw: Draw) -> Task:
    a, r, p = draw.name(), draw.pick(RELATIONS), draw.property()

    def solve(script: Script) -> str:
        return script.lookup(f"{script.lookup_name(f'{a}.{r}')}.{p}")[0]

    return _task(draw, "hop", {"a": a, "r": r, "p": p}, solve)


def _hop_scaled(draw: Draw) -> Task:
    a, r, p, z = draw.name(), draw.pick(RELATIONS), draw.property(), draw.integer(3)

    def solve(script: Script) -> str:
        x = script.lookup(f"{script.lookup_name(f'{a}.{r}')}.{p}")[0]
        return script.calc(f"{x}*{z}", Fraction(x) * Fraction(z))

    return _task(draw, "hop_scaled", {"a": a, "r": r, "p": p, "z": z}, solve)


def _comparison(kind: str, positive_is_first: bool) -> Callable[[Draw], Task]:
    """The answer is an entity, read off the sign of a difference."""

    def make(draw: Draw) -> Task:
        (a, b), p = draw.names(2), draw.property()

        def solve(script: Script) -> str:
            difference = script.calc(*_minus(*script.lookup(f"{a}.{p}", f"{b}.{p}")))
            if difference == "0":
                return "equal"
            return a if difference.startswith("-") is not positive_is_first else b

        return _task(draw, kind, {"a": a, "b": b, "p": p}, solve)

    return make


def follow_up_kind(draw: Draw, topic: Topic) -> str:
    """Draws the kind of a question that can only be answered with what came before."""
    about_number = ("scale_that", "shift_that", "reduce_that")
    return draw.pick(about_number if topic.entity is None else about_number + ("same_property", "same_entity") * 2)


def follow_up(draw: Draw, kind: str, topic: Topic) -> Task:
    """Draws a question of a kind that `follow_up_kind` chose for `topic`."""
    if kind in _SIGNS:
        z = draw.integer(4)
        expression = f"{topic.answer}{_SIGNS[kind]}{z}"
        result = _value(topic.answer, _SIGNS[kind], z)
        return _task(draw, kind, {"z": z}, lambda script: script.calc(expression, result))
    entity = draw.name() if kind == "same_property" else topic.entity
    name = topic.property if kind == "same_property" else draw.property()
    question = phrase(draw, kind, {"b": entity, "q": name})
    return Task(kind, question, lambda script: script.lookup(f"{entity}.{name}")[0], entity, name)


_SIGNS = {"scale_that": "*", "shift_that": "+", "reduce_that": "-"}


def _value(x: str, sign: str, y: str) -> Fraction:
    left, right = Fraction(x), Fraction(y)
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    return left * right if sign == "*" else left / right


def _plus(x: str, y: str) -> tuple[str, Fraction]:
    return f"{x}+{y}", Fraction(x) + Fraction(y)


def _minus(x: str, y: str) -> tuple[str, Fraction]:
    return f"{x}-{y}", Fraction(x) - Fraction(y)


def _times(x: str, y: str) -> tuple[str, Fraction]:
    return f"{x}*{y}", Fraction(x) * Fraction(y)


def _over(x: str, y: str) -> tuple[str, Fraction]:
    return f"{x}/{y}", Fraction(x) / (Fraction(y) or 1)


def _mean(*values: str) -> tuple[str, Fraction]:
    return f"({'+'.join(values)})/{len(values)}", sum(map(Fraction, values), Fraction(0)) / len(values)


def _sum(*values: str) -> tuple[str, Fraction]:
    return "+".join(values), sum(map(Fraction, values), Fraction(0))


def _percent(x: str, z: str) -> tuple[str, Fraction]:
    return f"{x}*{z}/100", Fraction(x) * Fraction(z) / 100


def _above(x: str, y: str, z: str) -> tuple[str, Fraction]:
    return f"{x}-({y}+{z})", Fraction(x) - Fraction(y) - Fraction(z)


FIRST_KINDS: dict[str, Callable[[Draw], Task]] = {
    "plus": _calc_of_two("plus", "+"),
    "minus": _calc_of_two("minus", "-"),
    "times": _calc_of_two("times", "*"),
    "over": _calc_of_two("over", "/"),
    "three_terms": _three_terms,
    "lookup": _lookup,
    "both": _both,
    "total": _pair("total", _plus),
    "difference": _pair("difference", _minus),
    "ratio": _pair("ratio", _over),
    "average": _pair("average", _mean),
    "scaled": _with_number("scaled", _times),
    "shifted": _with_number("shifted", _plus),
    "percent": _with_number("percent", _percent),
    "total_of_three": _triple("total_of_three", _sum),
    "average_of_three": _triple("average_of_three", _mean),
    "above_two": _triple("above_two", _above),
    "two_properties": _properties_of_one("two_properties", "+"),
    "product_of_properties": _properties_of_one("product_of_properties", "*"),
    "total_then_scale": _then_scale("total_then_scale", 2),
    "three_then_scale": _then_scale("three_then_scale", 3),
    "hop": _hop,
    "hop_scaled": _hop_scaled,
    "larger": _comparison("larger", positive_is_first=True),
    "smaller": _comparison("smaller", positive_is_first=False),
}
"""Every kind that can open a conversation."""

_WEIGHTS = {
    "lookup": 4, "total": 2, "difference": 2, "scaled": 2, "total_of_three": 2, "hop": 2, "larger": 4, "smaller": 4,
}
_WEIGHTED = tuple(kind for kind in FIRST_KINDS for _ in range(_WEIGHTS.get(kind, 1)))


def weighted_kind(draw: Draw) -> str:
    """Draws an opening kind: common questions come more often, and comparisons, which are learned last."""
    return draw.pick(_WEIGHTED)
