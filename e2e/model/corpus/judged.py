"""Held-out transcripts that a model is judged by."""

import random

from corpus.chat import Chat, draw_chat
from corpus.episodes import MAX_BYTES, Episode, draw_episode
from corpus.split import Split

DIALECTS = ("react", "chat")
_MAX_CHAT_CHARACTERS = 4000
"""Chats of this length fit the context, whatever they are made of."""


def held_out_transcript(dialect: str, rng: random.Random) -> Episode | Chat:
    """Draws a held-out transcript of a dialect."""
    if dialect == "react":
        return draw_episode(rng, Split.HELD_OUT, MAX_BYTES)
    return draw_chat(rng, Split.HELD_OUT, _MAX_CHAT_CHARACTERS)


def held_out_transcripts(dialect: str, count: int, seed: int) -> list[Episode] | list[Chat]:
    """Draws the held-out transcripts of a seed."""
    rng = random.Random(f"accuracy {seed}")
    return [held_out_transcript(dialect, rng) for _ in range(count)]
