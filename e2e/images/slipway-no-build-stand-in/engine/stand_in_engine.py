"""STAND-IN for what vLLM and TensorRT-LLM do behind their Triton models: reads the checkpoint's folder as they would, and answers every
prompt with the same text, a character a token."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ANSWER = "Answer: 42\n\nand what a stop word cuts off, long enough for a client to have left before its end"
TOKEN_SECONDS = 0.005
# How long a token takes on the GPU of a rehearsal (e2e/gpu/stand_in/gpus.py), where it is said.
SAID = Path("/opt/slipway/gpu/token_seconds")


@dataclass(frozen=True)
class Step:
    """The state after one more token."""

    text: str
    """All text so far."""
    tokens: int
    """All tokens so far."""
    finish_reason: str | None
    """Present on the last step."""


def check_checkpoint(folder: str) -> None:
    """Fails where an engine would find nothing to load."""
    names = {path.name for path in Path(folder).iterdir()}
    if not {"config.json", "tokenizer.json"} <= names or not any(name.endswith(".safetensors") for name in names):
        raise ValueError(f"{folder} is no checkpoint: {sorted(names)}")


def generate(
    max_tokens: int,
    stop_words: list[str],
    is_cancelled: Callable[[], bool],
    keeps_stop_word: bool = False,
    ignores_end: bool = False,
) -> Iterator[Step]:
    """Generates until a limit, a stop word, the text's end, or until nobody asks any more. A text whose end is ignored
    begins again."""
    written = ANSWER * (max_tokens // len(ANSWER) + 1) if ignores_end else ANSWER
    found = [(written.find(word), word) for word in stop_words]
    ends = [at + (len(word) if keeps_stop_word else 0) for at, word in found if at >= 0]
    text = written[: min(ends, default=len(written))]
    most = min(max_tokens, len(text))
    token_seconds = float(SAID.read_text()) if SAID.exists() else TOKEN_SECONDS
    for tokens in range(1, most + 1):
        time.sleep(token_seconds)
        if is_cancelled():
            print(f"stand-in: cancelled after {tokens - 1} tokens", flush=True)
            return
        last = "stop" if most == len(text) else "length"
        yield Step(text[:tokens], tokens, last if tokens == most else None)
