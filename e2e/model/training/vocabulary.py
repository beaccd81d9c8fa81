"""The tokenizer: byte-level BPE with few merges, trained on the corpus.

Tokens 0 to 255 are the bytes, then come the special ones, then the merges. What has to be copied must have the same
tokens wherever it stands, so letters never share a token with anything else, digits and signs of arithmetic stand
alone, and so does every line end: stop words end where a token ends.
"""

import json
import random
from collections.abc import Iterator

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from corpus.chat import MAX_CHARACTERS, draw_chat
from corpus.episodes import MAX_BYTES, draw_episode
from corpus.split import Split

SIZE = 768
PAD, END = "<|endoftext|>", "<|im_end|>"
SPECIAL = (PAD, "<|im_start|>", END)
"""Left out of decoded texts; the last one ends every text that the model writes."""
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<tools>", "</tools>")
"""Tokens of their own that are text, as callers look for them."""

_WORDS = r"""\p{L}+|\p{N}| ?[{}":,]+|[\s\S]"""
_N_BYTES = 256
_N_EPISODES = 10_000


def train_tokenizer() -> Tokenizer:
    """Trains the tokenizer; the same one on every machine."""
    learner = _tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE - len(SPECIAL) - len(TAGS), show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    learner.train_from_iterator(_texts(), trainer)
    model = json.loads(learner.to_str())["model"]
    merges = [tuple(merge) for merge in model["merges"]]
    tokens = _byte_characters() + [*SPECIAL, *TAGS] + ["".join(merge) for merge in merges]
    tokenizer = _tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, merges))
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in TAGS])
    return tokenizer


def _tokenizer(model: models.Model) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(_WORDS), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _texts() -> Iterator[str]:
    rng = random.Random("vocabulary")
    for _ in range(_N_EPISODES):
        yield draw_episode(rng, Split.TRAINING, MAX_BYTES).text()
        chat = draw_chat(rng, Split.TRAINING, MAX_CHARACTERS).text()
        for tag in (*SPECIAL, *TAGS):
            chat = chat.replace(tag, "\n")
        yield chat


def _byte_characters() -> list[str]:
    """Returns the printable character that stands for each byte in byte-level BPE (GPT-2's table)."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    moved = iter(range(_N_BYTES, 2 * _N_BYTES))
    return [chr(byte if byte in printable else next(moved)) for byte in range(_N_BYTES)]
