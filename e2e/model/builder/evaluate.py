"""Runs the quality set through a built engine and writes the raw outputs; scoring is the caller's."""

import json
from pathlib import Path

from .generation.batcher import Batcher
from .generation.engine import Engine, load_engine
from .generation.request import GenerationRequest, InvalidRequest, checked_request


class QualitySetError(Exception):
    """A line of the quality set cannot be used; the text names line and field."""


def evaluate(folder: Path, quality_set: Path, outputs: Path, n_threads: int) -> int:
    """Generates an output for each line of the quality set, in its order, and returns their number.

    Raises `QualitySetError`.
    """
    engine = load_engine(folder, n_rows=32, n_threads=n_threads)
    requests = read_quality_set(quality_set, engine)
    texts = generate_all(Batcher(engine), list(requests.values()))
    outputs.parent.mkdir(parents=True, exist_ok=True)
    entries = [{"id": identity, "output": text} for identity, text in zip(requests, texts)]
    outputs.write_text("".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries))
    return len(entries)


def read_quality_set(path: Path, engine: Engine) -> dict[str, GenerationRequest]:
    """Reads and checks the quality set: one object with `id`, `prompt`, `maxTokens` and `stopWords` per line.

    Raises `QualitySetError`.
    """
    requests: dict[str, GenerationRequest] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{path.name}, line {number}"
        try:
            entry = json.loads(line)
            identity = str(entry["id"])
            request = checked_request(
                entry["prompt"].encode(),
                int(entry["maxTokens"]),
                [word.encode() for word in entry.get("stopWords") or []],
                engine.vocabulary,
                engine.context_length,
            )
        except InvalidRequest as error:
            # Triton's input names, said as the quality set names them.
            text = str(error).replace("text_input:", "prompt:").replace("max_tokens:", "maxTokens:")
            raise QualitySetError(f"{where}: {text.replace('stop_words:', 'stopWords:')}") from error
        except KeyError as error:
            raise QualitySetError(f"{where}: {error.args[0]} is missing") from error
        except (ValueError, TypeError, AttributeError) as error:
            raise QualitySetError(f"{where}: {error}") from error
        if identity in requests:
            raise QualitySetError(f"{where}: id {identity} occurs twice")
        requests[identity] = request
    if not requests:
        raise QualitySetError(f"{path.name} is empty")
    return requests


def generate_all(batcher: Batcher[int], requests: list[GenerationRequest]) -> list[str]:
    """Generates the texts of all requests, batched."""
    texts = [""] * len(requests)
    for index, request in enumerate(requests):
        batcher.submit(index, request)
    while not batcher.is_idle:
        for progress in batcher.step():
            texts[progress.key] += progress.text
    return texts
