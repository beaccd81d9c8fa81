"""A built engine: the network and its tokenizer, as they lie beside each other in the model's folder."""

from dataclasses import dataclass
from pathlib import Path

from .decoder import Decoder
from .tokens import BytePairs, Vocabulary

ONNX_MODEL, TORCH_MODEL, TOKENIZER = "model.onnx", "model.safetensors", "tokenizer.json"


@dataclass(frozen=True)
class Engine:
    """What generation runs on."""

    decoder: Decoder
    vocabulary: Vocabulary

    @property
    def context_length(self) -> int:
        """Tokens a prompt and its answer may have together."""
        return self.decoder.context_length


def is_engine(folder: Path) -> bool:
    """Says whether a folder has a network to load."""
    return any((folder / name).is_file() for name in (ONNX_MODEL, TORCH_MODEL))


def load_engine(
    folder: Path, n_rows: int, n_threads: int, extra_compute_percent: int = 0, cuda_graphs: bool = True
) -> Engine:
    """Loads the engine of a model's version folder; `cuda_graphs` matters to torch on a GPU alone."""
    # An image has the packages of one runtime only, hence the imports here.
    if (folder / TORCH_MODEL).is_file():
        from .torch_decoder import TorchDecoder

        decoder: Decoder = TorchDecoder(folder / TORCH_MODEL, n_rows, n_threads, extra_compute_percent, cuda_graphs)
    else:
        from .onnx_decoder import OnnxDecoder

        decoder = OnnxDecoder(folder / ONNX_MODEL, n_rows, n_threads, extra_compute_percent)
    return Engine(decoder, BytePairs(folder / TOKENIZER, decoder.end_tokens))
