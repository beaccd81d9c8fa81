"""What a caller asks for, checked: a prompt, a limit and the words to stop at."""

from dataclasses import dataclass

from .tokens import Vocabulary

MAX_STOP_WORDS = 16


class InvalidRequest(Exception):
    """A request that cannot be served; the text names the input and the remedy."""


@dataclass(frozen=True)
class GenerationRequest:
    """A checked request."""

    prompt: tuple[int, ...]
    max_tokens: int
    stop_words: tuple[bytes, ...]


def checked_request(
    text_input: bytes, max_tokens: int, stop_words: list[bytes], vocabulary: Vocabulary, context_length: int
) -> GenerationRequest:
    """Checks the inputs of a request against the model's context; what is no UTF-8 in them is replaced.

    Raises `InvalidRequest`.
    """
    if not text_input:
        raise InvalidRequest("text_input: the prompt is empty; send at least one character")
    if max_tokens < 1:
        raise InvalidRequest(f"max_tokens: must be at least 1, got {max_tokens}")
    if len(stop_words) > MAX_STOP_WORDS:
        raise InvalidRequest(f"stop_words: at most {MAX_STOP_WORDS} words, got {len(stop_words)}")
    if any(not word for word in stop_words):
        raise InvalidRequest("stop_words: a stop word is empty; leave it out")
    prompt = vocabulary.encode(text_input.decode(errors="replace"))
    if len(prompt) >= context_length:
        raise InvalidRequest(
            f"text_input: the prompt has {len(prompt)} tokens, the model's context holds {context_length} "
            "with the answer; shorten the prompt"
        )
    return GenerationRequest(tuple(prompt), max_tokens, tuple(stop_words))
