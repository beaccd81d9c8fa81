"""Trains the demo's ReAct models and writes their checkpoints and the training log.

    python3 train.py --out DIR                     # all models, as committed
    python3 train.py --out DIR --models react-256

Needs PyTorch and a GPU; minutes on an H100 or H200. `SHA256SUMS` of the committed checkpoints pins what this wrote.
"""

import argparse
import collections
import dataclasses
import json
import math
import random
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from builder.generation.tokens import BOS, EOS, PAD, tokenizer_json
from corpus.episodes import draw_episode
from corpus.split import Split
from training.dataset import BUCKETS, COMPLETION, CONTEXT, Bucket, draw_training_set, encode_episode, padded
from training.network import Network, Shape

TOKENS_PER_STEP = 98304
CONTEXT_WEIGHT = 0.03
"""Loss weight of text the model only reads: enough to learn its letters, too little to chase random names."""
SHARD_BYTES = 15 << 20


@dataclasses.dataclass(frozen=True)
class Recipe:
    """One model to train."""

    shape: Shape
    steps: int
    peak_learning_rate: float


RECIPES = {
    "react-512": Recipe(Shape(512, 4, 8, 4, 1536), steps=9500, peak_learning_rate=8e-4),
    "react-256": Recipe(Shape(256, 4, 4, 2, 768), steps=3000, peak_learning_rate=1.2e-3),
}


class Log:
    """Prints lines with elapsed seconds and keeps them in a file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a")
        self._start = time.monotonic()

    def __call__(self, text: str) -> None:
        line = f"{time.monotonic() - self._start:7.1f} s  {text}"
        print(line, flush=True)
        print(line, file=self._file, flush=True)


class Batches:
    """Draws batches of one length each; a length is drawn in proportion to its number of tokens."""

    def __init__(self, buckets: dict[int, Bucket], seed: int) -> None:
        self._buckets = {
            length: [torch.from_numpy(getattr(bucket, name)).cuda() for name in ("tokens", "labels", "roles")]
            for length, bucket in buckets.items()
        }
        self._lengths = list(self._buckets)
        self._weights = [len(arrays[0]) * length for length, arrays in self._buckets.items()]
        self._rng = random.Random(seed)
        self._generator = torch.Generator("cuda").manual_seed(seed)

    def draw(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns tokens, labels and the weight of each position's loss."""
        length = self._rng.choices(self._lengths, self._weights)[0]
        tokens, labels, roles = self._buckets[length]
        rows = torch.randint(len(tokens), (TOKENS_PER_STEP // length,), generator=self._generator, device="cuda")
        role = roles[rows]
        weights = (role == COMPLETION).float() + CONTEXT_WEIGHT * (role == CONTEXT).float()
        return tokens[rows].long(), labels[rows].long(), weights


def train(recipe: Recipe, batches: Batches, heldout: dict[int, Bucket], log: Log) -> Network:
    """Trains one model and returns it with its weights rounded to 16 bits, as they will be stored."""
    torch.manual_seed(0)
    network = Network(recipe.shape).cuda()
    log(f"{sum(parameter.numel() for parameter in network.parameters()):,} parameters, {recipe}")
    optimizer = torch.optim.AdamW(network.parameters(), betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    compiled = torch.compile(network, dynamic=False)
    for step in range(recipe.steps):
        for group in optimizer.param_groups:
            group["lr"] = recipe.peak_learning_rate * schedule(step, recipe.steps)
        loss = training_step(compiled, batches)
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 250 == 0:
            log(f"step {step}: loss {loss.item():.4f}")
        if step % 1000 == 999:
            exact, total, _ = exact_runs(network, heldout)
            log(f"step {step + 1}: {exact} of {total} held-out runs exact")
    for parameter in network.parameters():
        parameter.data = parameter.data.half().float()
    return network


def training_step(compiled: nn.Module, batches: Batches) -> torch.Tensor:
    """Computes gradients of one batch; the loss is per token that the model has to write."""
    tokens, labels, weights = batches.draw()
    with torch.autocast("cuda", torch.bfloat16):
        logits = compiled(tokens)
    losses = functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), reduction="none")
    weights = weights.flatten()
    loss = (losses * weights).sum() / (weights == 1).sum()
    loss.backward()
    return loss.detach()


def schedule(step: int, n_steps: int) -> float:
    """Linear warm-up over 200 steps, then a half cosine down to zero."""
    return min(1.0, (step + 1) / 200) * 0.5 * (1 + math.cos(math.pi * step / n_steps))


@torch.no_grad()
def exact_runs(network: Network, heldout: dict[int, Bucket]) -> tuple[int, int, list[bool]]:
    """Counts runs in which greedy decoding writes every call and the answer exactly.

    Greedy decoding follows the expected text exactly if and only if the expected token is the likeliest at every
    position of the expected text, so one forward pass decides.
    """
    outcomes = []
    for bucket in heldout.values():
        for start in range(0, len(bucket.tokens), 64):
            tokens, labels, roles = (
                torch.from_numpy(array[start : start + 64]).cuda()
                for array in (bucket.tokens, bucket.labels, bucket.roles)
            )
            predicted = network(tokens.long()).argmax(-1)
            wrong = (predicted != labels) & (roles == COMPLETION)
            outcomes += (~wrong.any(dim=1)).tolist()
    return sum(outcomes), len(outcomes), outcomes


def exact_runs_by_kind(network: Network, n_runs: int) -> dict[str, str]:
    """Returns the exact runs per kind of first question, on freshly drawn held-out episodes."""
    rng = random.Random("held-out by kind")
    counts: dict[str, list[bool]] = collections.defaultdict(list)
    episodes = sorted(
        (draw_episode(rng, Split.HELD_OUT, BUCKETS[-1] - 2) for _ in range(n_runs)), key=lambda e: len(e.text())
    )
    for episode in episodes:
        _, _, outcomes = exact_runs(network, padded([encode_episode(episode, None)]))
        failed = any(turn.answer.startswith("error: ") for turn in episode.turns)
        label = f"{len(episode.turns)} turns" if len(episode.turns) > 1 else episode.turns[0].kind
        counts["with a failed tool" if failed else label] += outcomes
    return {kind: f"{sum(outcomes)}/{len(outcomes)}" for kind, outcomes in sorted(counts.items())}


def save(network: Network, recipe: Recipe, folder: Path) -> None:
    """Writes configuration, tokenizer and 16-bit weights in shards, in Hugging Face's layout."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["SlipwayReActForCausalLM"], "model_type": "slipway_react", **dataclasses.asdict(recipe.shape),
        "hidden_act": "gelu", "tie_word_embeddings": True, "torch_dtype": "float16",
        "pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer_json(), indent=1, ensure_ascii=False) + "\n")
    tensors = {f"model.{name}": value.half().contiguous() for name, value in network.state_dict().items()}
    shards: list[dict[str, torch.Tensor]] = [{}]
    size = 0
    for name, tensor in tensors.items():
        if size + tensor.nbytes > SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size += tensor.nbytes
    names = [f"model-{index:05d}-of-{len(shards):05d}.safetensors" for index in range(1, len(shards) + 1)]
    for name, shard in zip(names, shards):
        save_file(shard, folder / name)
    index = {
        "metadata": {"total_size": sum(tensor.nbytes for tensor in tensors.values())},
        "weight_map": {tensor: name for name, shard in zip(names, shards) for tensor in shard},
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the checkpoints and training.log")
    parser.add_argument("--models", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--episodes", type=int, default=1_500_000)
    parser.add_argument("--processes", type=int, default=15)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    log = Log(arguments.out / "training.log")
    torch.set_float32_matmul_precision("high")
    log(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    training_set = draw_training_set(arguments.episodes, arguments.processes)
    counts = (f"{length}: {len(bucket.tokens):,}" for length, bucket in training_set.items())
    log("episodes by length: " + ", ".join(counts))
    rng = random.Random("held-out")
    heldout = padded(encode_episode(draw_episode(rng, Split.HELD_OUT, BUCKETS[-1] - 2), None) for _ in range(1000))
    batches = Batches(training_set, seed=0)
    for name in arguments.models:
        recipe = RECIPES[name]
        network = train(recipe, batches, heldout, log)
        exact, total, _ = exact_runs(network, heldout)
        log(f"{name}: {exact} of {total} held-out runs exact with 16-bit weights")
        save(network, recipe, arguments.out / name)
        log(f"{name} by kind: {exact_runs_by_kind(network, 1500)}")


if __name__ == "__main__":
    main()
