"""Held-out transcripts that a model is judged by."""

import random

from corpus.chat import Chat, draw_chat
from corpus.episodes import MAX_BYTES, Episode, draw_episode
from corpus.split import Split

DIALECTS = ("react", "chat")
_MAX_CHAT_CHARACTERS = 4000
"""Chats of this length fit the context, whatever they are made of."""


def held_out_transcripts(dialect: str, count: int, seed: int) -> list[Episode] | list[Chat]:
    """Draws held-out transcripts of a dialect."""
    rng = random.Random(f"accuracy {seed}")
    if dialect == "react":
        return [draw_episode(rng, Split.HELD_OUT, MAX_BYTES) for _ in range(count)]
    return [draw_chat(rng, Split.HELD_OUT, _MAX_CHAT_CHARACTERS) for _ in range(count)]
