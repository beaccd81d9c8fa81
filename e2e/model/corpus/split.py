"""Divides names, numbers and phrasings into a training and a held-out part by their hash.

The division belongs to the string, not to a list or a seed: a name is held out wherever it turns up.
That is what lets a test prove that nothing the model is judged on occurred in training.
"""

import enum
import hashlib

HELD_OUT_SHARE = 10
"""One string in this many is held out."""


class Split(enum.Enum):
    """The two disjoint parts of the language."""

    TRAINING = "training"
    HELD_OUT = "held-out"


class Kind(enum.Enum):
    """What a string is; the same text as a name and as a phrasing is divided independently."""

    NAME = "name"
    NUMBER = "number"
    PHRASING = "phrasing"
    SIGNATURE = "signature"


def split_of(kind: Kind, text: str) -> Split:
    """Returns the part that `text` belongs to."""
    digest = hashlib.blake2b(f"{kind.value}\0{text}".encode(), digest_size=4).digest()
    return Split.HELD_OUT if int.from_bytes(digest, "big") % HELD_OUT_SHARE == 0 else Split.TRAINING
