"""A built engine: the network and its tokenizer, as they lie beside each other in the model's folder."""

from dataclasses import dataclass
from pathlib import Path

from .decoder import Decoder, OnnxDecoder
from .tokens import BytePairs, Vocabulary

MODEL, TOKENIZER = "model.onnx", "tokenizer.json"


@dataclass(frozen=True)
class Engine:
    """What generation runs on."""

    decoder: Decoder
    vocabulary: Vocabulary

    @property
    def context_length(self) -> int:
        """Tokens a prompt and its answer may have together."""
        return self.decoder.context_length


def load_engine(folder: Path, n_rows: int, n_threads: int, extra_compute_percent: int = 0) -> Engine:
    """Loads the engine of a model's version folder."""
    decoder = OnnxDecoder(folder / MODEL, n_rows, n_threads, extra_compute_percent)
    return Engine(decoder, BytePairs(folder / TOKENIZER, decoder.end_tokens))
