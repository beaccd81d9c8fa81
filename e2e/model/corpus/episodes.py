"""Episodes: an optional system prompt and one to three turns of question, tool calls, observations and answer."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from corpus.draw import Draw
from corpus.kinds import FIRST_KINDS, Topic, follow_up, follow_up_kind, weighted_kind
from corpus.script import Script, Step, ToolFailed
from corpus.split import Kind, Split, split_of

MAX_BYTES = 766
"""Episodes are at most this long: they fit 768 tokens of one byte, whatever the tokenizer."""
CONSTANTS = frozenset({"2", "3", "100"})
"""Numbers that belong to a calculation's form (averages, percentages) and so occur in both splits."""

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_ERROR_SHARE = 0.18
_SYSTEM_SHARE = 0.7


@dataclass(frozen=True)
class Turn:
    """One question and everything up to its answer."""

    kind: str
    question: str
    steps: tuple[Step, ...]
    answer: str


@dataclass(frozen=True)
class Episode:
    """A whole transcript."""

    preamble: str
    """The system prompt's line with its line end, or nothing."""
    turns: tuple[Turn, ...]
    chat_history: bool = False
    """Whether earlier turns are told as a chat client does: questions and answers, without the tool calls."""

    def model_calls(self) -> Iterator[tuple[str, str]]:
        """Yields each prompt of this episode with the exact completion expected for it."""
        prompt = ""
        for text, is_completion in self.pieces():
            if is_completion:
                yield prompt, text
            prompt += text

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """Yields the transcript in order: text, and whether the model has to write it."""
        context = self.preamble
        *earlier, last = self.turns
        if self.chat_history:
            context += "".join(f"Question: {turn.question}\nAnswer: {turn.answer}\n\n" for turn in earlier)
        for turn in (last,) if self.chat_history else self.turns:
            context += f"Question: {turn.question}\n"
            for step in turn.steps:
                yield context, False
                yield "".join(f"Action: {action}\n" for action in step.actions) + "\n", True
                context = "".join(f"Observation: {observation}\n" for observation in step.observations)
            yield context, False
            yield f"Answer: {turn.answer}\n\n", True
            context = ""

    def text(self) -> str:
        """Returns the whole transcript."""
        return "".join(text for text, _ in self.pieces())


def numbers_of(text: str) -> set[str]:
    """Returns the numbers written in `text`, without the constants of calculations."""
    return set(_NUMBER.findall(text)) - CONSTANTS


def draw_episode(rng: random.Random, split: Split, max_bytes: int) -> Episode:
    """Draws an episode whose every name, number (tool results included) and phrasing lies in `split`.

    Episodes longer than `max_bytes` are drawn anew.
    """
    draw = Draw(rng, split)
    while True:
        preamble = _preamble(draw)
        turns = tuple(draw_turns(draw, draw.pick((1, 1, 1, 1, 1, 1, 1, 2, 2, 3))))
        episode = Episode(preamble, turns, chat_history=draw.chance(0.4))
        if len(episode.text().encode()) <= max_bytes:
            return episode


def _preamble(draw: Draw) -> str:
    """Varies how a runtime renders a system prompt: with or without label, one or two line ends, or none at all."""
    if not draw.chance(_SYSTEM_SHARE):
        return ""
    while True:
        label = "System: " if draw.chance(0.8) else ""
        text = label + draw.system_text() + ("\n\n" if draw.chance(0.2) else "\n")
        if _numbers_are_of(draw.split, text):
            return text


def draw_system_text(draw: Draw) -> str:
    """Draws a system prompt without a label, or nothing."""
    if not draw.chance(_SYSTEM_SHARE):
        return ""
    while True:
        text = draw.system_text()
        if _numbers_are_of(draw.split, text):
            return text


def draw_turns(draw: Draw, n_turns: int) -> Iterator[Turn]:
    """Draws turns that may refer to the one before."""
    topic: Topic | None = None
    for _ in range(n_turns):
        turn, topic = _turn(draw, topic)
        yield turn


def _turn(draw: Draw, topic: Topic | None) -> tuple[Turn, Topic | None]:
    """Draws a turn; its kind and its failure are drawn once, so that the split's rejections do not favor short ones."""
    follows = topic is not None and draw.chance(0.8)
    kind = follow_up_kind(draw, topic) if follows else weighted_kind(draw)
    failing_call = draw.pick((0, 0, 1, 2, 3)) if draw.chance(_ERROR_SHARE) else None
    while True:
        task = follow_up(draw, kind, topic) if follows else FIRST_KINDS[kind](draw)
        script = Script(draw, failing_call)
        try:
            answer = task.solve(script)
            next_topic = task.topic(answer)
        except ToolFailed as failure:
            answer = f"error: {failure}"
            next_topic = None
        turn = Turn(task.kind, task.question, tuple(script.steps), answer)
        if all(_numbers_are_of(draw.split, observation) for step in turn.steps for observation in step.observations):
            return turn, next_topic


def _numbers_are_of(split: Split, text: str) -> bool:
    return all(split_of(Kind.NUMBER, number) is split for number in numbers_of(text))
