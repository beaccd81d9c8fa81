"""Draws names, numbers, properties and free text, all from one side of the split."""

import random
from collections.abc import Callable

from corpus.split import Kind, Split, split_of

PROPERTIES = (
    "population", "area", "price", "height", "founded", "score", "weight", "budget", "length", "depth", "width",
    "revenue", "debt", "stock", "speed", "age", "capacity", "distance", "temperature", "rainfall", "salary", "volume",
    "members", "visitors", "students", "voltage", "mass", "rent", "turnout", "altitude", "staff", "orders",
)
RELATIONS = ("capital", "owner", "partner", "rival", "neighbor", "supplier", "successor", "parent", "sponsor", "twin")

_ONSETS = ("b", "c", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z", "q", "x", "y",
           "br", "ch", "dr", "gl", "kr", "sh", "st", "th", "tr")
_VOWELS = ("a", "e", "i", "o", "u", "a", "e", "o", "ai", "ou", "y")
_CODAS = ("", "", "", "", "n", "r", "s", "l", "m", "k", "th", "x")
_ACCENTED = "éèüöäñçåøßłžá"
_WORDS = (
    "you are a helpful careful assistant agent answer the user question with short and exact replies use tools when "
    "needed never guess always look up facts first then calculate result company policy internal only english polite "
    "tone do not reveal secrets version beta team support data warehouse region cluster today report numbers as they "
    "come from system if tool fails say so keep it brief one line no units think step by step customer of in on for "
    "to from at by is be must should may can will lookup calc tool action observation expression name property value"
).split()
_SENTENCES = (
    "You are a helpful assistant.", "Answer in one line.", "Use the tools; never guess.", "Be brief.",
    "You answer questions about places with the tools lookup and calc.", "Reply with the number only.",
    "Do not make up values.", "If a tool fails, say so.", "You work for the statistics office.",
    "Think step by step.", "You are an agent that looks facts up before it calculates.",
    "Tools: lookup[Entity.property], calc[expression].", "Call tools in parallel when you can.", "Stay polite.",
)
_ERROR_TEXTS = (
    "not found", "no such entity", "connection refused", "timed out", "timed out after {n} ms", "timeout after {n}s",
    "unknown property {w}", "unknown entity {a}", "no value for {a}.{w}", "division by zero", "status {n}",
    "HTTP {n} {w} {w}", "HTTP status {n} from {w}.{w}:{n}", "connect to {w}:{n}: connection refused (os error {n})",
    "error sending request for url (http://{w}-{w}.{w}.svc:{n}/{w}/{a})", "dns error: no record for {w}.{w}.svc",
    "tool {w} failed: {w} {w} {w}", "upstream {w} unavailable", "bad gateway", "service unavailable, retry later",
    "tool call timed out", "the tool {w} did not answer within {n}ms", "invalid argument: {w} {w}", "permission denied",
    "budget exceeded", "rate limited; retry in {n} seconds", "the service cannot be reached", "HTTP status {n}",
    "no answer within {n} ms", "the answer is longer than {n} bytes", "the answer is not JSON", "no result",
    "the answer has nothing at /{w}", "wrong arguments: expected {w}, got {n} argument(s)",
    'wrong arguments: argument "{w}" is missing', 'wrong arguments: unknown argument "{w}"', "a number is too large",
    'unknown tool "{w}"; the tools are {w}, {w}', "the expression ends too early", 'unexpected "{w}" at position {n}',
    "the tool's credentials cannot be read", "no recorded result for {w}[{a}.{w}]",
)
_ERROR_WORD_FORMS = (
    "{w}", "{w}", "{w}", "{w}", "{w}", "{w}", "{W}", "{U}", "{n}", "{a}", "{w}.{w}", "/{w}/{w}", '"{w}"', "'{w}'",
    "({w})",
    "{w}-{w}", "{w}_{w}", "{w}={n}", "[{w}]", "{w}'s", "{w}[{a}.{w}]", "<{w}>", "{n}%", "{U}{n}", "#{n}", "{w}@{w}",
)
_ERROR_JOINTS = (" ", " ", " ", " ", " ", " ", ": ", ", ", "; ", ". ", " - ")


class Draw:
    """A source of random strings of one split; the same seed gives the same strings on every machine."""

    def __init__(self, rng: random.Random, split: Split) -> None:
        self.rng = rng
        self.split = split

    def chance(self, probability: float) -> bool:
        """Returns true with the given probability."""
        return self.rng.random() < probability

    def pick(self, options):
        """Returns one of `options`."""
        return options[int(self.rng.random() * len(options))]

    def name(self) -> str:
        """Returns the name of an entity: mostly one capitalized word, sometimes two, sometimes accented or odd."""
        words = [self._of_split(Kind.NAME, self._name_word)]
        if self.chance(0.08):
            words.append(self._of_split(Kind.NAME, self._name_word))
        return " ".join(words)

    def names(self, count: int) -> list[str]:
        """Returns `count` different names."""
        found: list[str] = []
        while len(found) < count:
            name = self.name()
            if name not in found:
                found.append(name)
        return found

    def integer(self, max_digits: int = 6) -> str:
        """Returns a positive integer, its number of digits drawn first so that short ones are common."""
        return self._of_split(Kind.NUMBER, lambda: str(self.rng.randint(1, 10 ** self.rng.randint(1, max_digits))))

    def value(self) -> str:
        """Returns what a look-up answers: an integer, or one time in eight a decimal."""
        if not self.chance(0.125):
            return self.integer()
        return self._of_split(Kind.NUMBER, self._decimal)

    def property(self) -> str:
        """Returns a property, one time in five a made-up one, so that the model copies instead of recognizing."""
        if self.chance(0.8):
            return self.pick(PROPERTIES)
        return "".join(self._syllable() for _ in range(self.rng.randint(2, 3))).lower()

    def properties(self, count: int) -> list[str]:
        """Returns `count` different properties."""
        found: list[str] = []
        while len(found) < count:
            name = self.property()
            if name not in found:
                found.append(name)
        return found

    def error_text(self) -> str:
        """Returns the text of a failed tool call, without its `error: ` prefix; at most 120 characters.

        Two thirds are made up word by word: what a tool will say is unknown, so the model has to learn to copy.
        """
        if self.chance(0.33):
            text = self.pick(_ERROR_TEXTS)
        else:
            text = self.pick(_ERROR_WORD_FORMS)
            for _ in range(self.rng.randint(0, 12)):
                text += self.pick(_ERROR_JOINTS) + self.pick(_ERROR_WORD_FORMS)
        makers = (
            ("{n}", self.integer), ("{w}", self._word), ("{a}", self.name),
            ("{W}", lambda: self._of_split(Kind.NAME, self._name_word)), ("{U}", lambda: self._syllable().upper()),
        )
        for mark, make in makers:
            while mark in text:
                text = text.replace(mark, make(), 1)
        return text[:120].rstrip()

    def system_text(self) -> str:
        """Returns a system prompt of at most 220 characters: sentences, word salad or noise."""
        style = self.rng.random()
        if style < 0.5:
            text = " ".join(self.pick(_SENTENCES) for _ in range(self.rng.randint(1, 4)))
        elif style < 0.9:
            text = " ".join(self._salad_word() for _ in range(self.rng.randint(1, 40)))
        else:
            text = "".join(self._noise_character() for _ in range(self.rng.randint(1, 200)))
        return text.strip()[: self.pick((80, 150, 220))] or "Be brief."

    def _of_split(self, kind: Kind, make: Callable[[], str]) -> str:
        while True:
            text = make()
            if split_of(kind, text) is self.split:
                return text

    def _syllable(self) -> str:
        return self.pick(_ONSETS) + self.pick(_VOWELS) + self.pick(_CODAS)

    def _name_word(self) -> str:
        style = self.rng.random()
        if style < 0.85:
            word = "".join(self._syllable() for _ in range(self.rng.randint(2, 4)))
        elif style < 0.95:
            word = "".join(self.pick("abcdefghijklmnopqrstuvwxyz") for _ in range(self.rng.randint(3, 10)))
        else:
            word = self._syllable() + self.pick(_ACCENTED) + self._syllable()
        return word.capitalize()

    def _decimal(self) -> str:
        digits = self.rng.randint(1, 3)
        return f"{self.rng.randint(0, 99999) / 10**digits:.{digits}f}"

    def _word(self) -> str:
        if self.chance(0.5):
            return self.pick(_WORDS)
        if self.chance(0.3):
            return "".join(self.pick("abcdefghijklmnopqrstuvwxyz") for _ in range(self.rng.randint(1, 8)))
        return "".join(self._syllable() for _ in range(self.rng.randint(1, 3)))

    def _salad_word(self) -> str:
        style = self.rng.random()
        if style < 0.8:
            return self._word() + self.pick(("", "", "", ".", ",", ":", "!"))
        return self.name() if style < 0.92 else self.integer()

    def _noise_character(self) -> str:
        if self.chance(0.05):
            return self.pick(_ACCENTED + "–“”…→")
        character = chr(self.rng.randint(32, 126))
        return " " if character.isdigit() else character
