"""The checkpoint's tokenizer: prompts to tokens, tokens to the bytes of the text."""

from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer

_N_BYTES = 256


class Vocabulary(Protocol):
    """What generation needs of a tokenizer."""

    ends: frozenset[int]

    def encode(self, text: str) -> list[int]:
        """Returns a prompt's tokens."""

    def piece(self, token: int) -> bytes:
        """Returns the bytes that a token adds to a text; they may end within a character."""


class BytePairs:
    """A tokenizer.json of byte-level BPE, as Hugging Face's `tokenizers` reads it."""

    def __init__(self, path: Path, ends: frozenset[int]) -> None:
        self.ends = ends
        self._tokenizer = Tokenizer.from_file(str(path))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._pieces = _pieces(self._tokenizer)

    def encode(self, text: str) -> list[int]:
        """Returns a prompt's tokens, with those that the tokenizer puts before every text."""
        return self._tokenizer.encode(text).ids

    def piece(self, token: int) -> bytes:
        """Returns the bytes that a token adds to a text; special tokens add none."""
        return self._pieces[token]


def _pieces(tokenizer: Tokenizer) -> list[bytes]:
    byte_of = {character: byte for byte, character in enumerate(_byte_characters())}
    added = tokenizer.get_added_tokens_decoder()
    pieces = []
    for token in range(tokenizer.get_vocab_size()):
        if token in added:
            pieces.append(b"" if added[token].special else added[token].content.encode())
        else:
            pieces.append(bytes(byte_of[character] for character in tokenizer.id_to_token(token)))
    return pieces


def _byte_characters() -> list[str]:
    """Returns the printable character that stands for each byte in byte-level BPE (GPT-2's table)."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    moved = iter(range(_N_BYTES, 2 * _N_BYTES))
    return [chr(byte if byte in printable else next(moved)) for byte in range(_N_BYTES)]
