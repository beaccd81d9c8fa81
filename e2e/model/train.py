"""Trains the demo's models and writes their checkpoints and the training log.

    python3 train.py --out DIR                     # all models, as committed
    python3 train.py --out DIR --models react-256

Needs PyTorch, tokenizers and a GPU; minutes on an H100 or H200. `SHA256SUMS` of the committed checkpoints pins what
this wrote.
"""

import argparse
import collections
import dataclasses
import json
import math
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional

from corpus.chat import MAX_CHARACTERS, Chat, draw_chat
from corpus.episodes import MAX_BYTES, Episode, draw_episode
from corpus.split import Split
from training.dataset import BUCKETS, COMPLETION, CONTEXT, Bucket, Encoder, TrainingSet
from training.network import Network, Shape
from training.vocabulary import END, PAD, train_tokenizer

TOKENS_PER_STEP = 98304
CONTEXT_WEIGHT = 0.03
"""Loss weight of text the model only reads, at the start: enough to learn its words, too little to chase names.

It falls to zero over the first half of the training.
"""
LOG_EVERY, EVALUATE_EVERY = 500, 2000
FIRST_PARTS = 28
"""Parts of the training set that are waited for before the first step."""
_DTYPES = (torch.int16, torch.int16, torch.uint8)
CHAT_TEMPLATE = Path(__file__).parent / "training" / "chat_template.jinja"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """One model to train."""

    shape: Shape
    steps: int
    peak_learning_rate: float


RECIPES = {
    "react-512": Recipe(Shape(512, 4, 8, 4, 896), steps=15500, peak_learning_rate=8e-4),
    "react-256": Recipe(Shape(256, 4, 4, 2, 512), steps=11000, peak_learning_rate=1.2e-3),
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

    def __init__(self, training_set: TrainingSet, seed: int) -> None:
        self._training_set = training_set
        self._buckets = {length: [torch.empty((0, length), dtype=dtype, device="cuda") for dtype in _DTYPES]
                         for length in BUCKETS}
        self._rng = random.Random(seed)
        self._generator = torch.Generator("cuda").manual_seed(seed)

    def take_arrived(self, at_least: int = 0) -> None:
        """Adds the parts of the training set that have become ready."""
        parts = list(self._training_set.arrived(at_least))
        for length, arrays in self._buckets.items() if parts else ():
            for index, name in enumerate(("tokens", "labels", "roles")):
                new = [torch.from_numpy(getattr(part[length], name)).cuda() for part in parts]
                arrays[index] = torch.cat([arrays[index], *new])

    def counts(self) -> str:
        """Tells how many transcripts there are so far, by padded length."""
        return ", ".join(f"{length}: {len(arrays[0]):,}" for length, arrays in self._buckets.items())

    def draw(self, context_weight: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns tokens, labels and the weight of each position's loss."""
        sizes = [arrays[0].numel() for arrays in self._buckets.values()]
        length = self._rng.choices(BUCKETS, sizes)[0]
        tokens, labels, roles = self._buckets[length]
        rows = torch.randint(len(tokens), (TOKENS_PER_STEP // length,), generator=self._generator, device="cuda")
        role = roles[rows]
        weights = (role == COMPLETION).float() + context_weight * (role == CONTEXT).float()
        return tokens[rows].long(), labels[rows].long(), weights


HeldOut = dict[str, dict[int, Bucket]]
"""Held-out transcripts by dialect."""


def train(
    recipe: Recipe, batches: Batches, held_out: HeldOut, log: Log, keep: Callable[[Network], None]
) -> Network:
    """Trains one model and returns it with its weights rounded to bfloat16, as they will be stored."""
    torch.manual_seed(0)
    network = Network(recipe.shape).cuda()
    log(f"{sum(parameter.numel() for parameter in network.parameters()):,} parameters, {recipe}")
    optimizer = torch.optim.AdamW(network.parameters(), betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    compiled = torch.compile(network, dynamic=False)
    for step in range(recipe.steps):
        for group in optimizer.param_groups:
            group["lr"] = recipe.peak_learning_rate * schedule(step, recipe.steps)
        loss = training_step(compiled, batches, CONTEXT_WEIGHT * max(0.0, 1 - 2 * step / recipe.steps))
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % LOG_EVERY == 0:
            log(f"step {step}: loss {loss.item():.5f}")
            batches.take_arrived()
        if step % EVALUATE_EVERY == EVALUATE_EVERY - 1:
            log(f"step {step + 1}: {exact_in_words(network, held_out)}")
            keep(network)
    for parameter in network.parameters():
        parameter.data = parameter.data.bfloat16().float()
    return network


def training_step(compiled: nn.Module, batches: Batches, context_weight: float) -> torch.Tensor:
    """Computes gradients of one batch; the loss is per token that the model has to write."""
    tokens, labels, weights = batches.draw(context_weight)
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
def exact_runs(network: Network, buckets: dict[int, Bucket]) -> list[bool]:
    """Tells of each run whether greedy decoding writes every call and the answer exactly.

    Greedy decoding follows the expected text exactly if and only if the expected token is the likeliest at every
    position of the expected text, so one forward pass decides.
    """
    outcomes = []
    for bucket in buckets.values():
        for start in range(0, len(bucket.tokens), 64):
            tokens, labels, roles = (
                torch.from_numpy(array[start : start + 64]).cuda()
                for array in (bucket.tokens, bucket.labels, bucket.roles)
            )
            predicted = network(tokens.long()).argmax(-1)
            wrong = (predicted != labels) & (roles == COMPLETION)
            outcomes += (~wrong.any(dim=1)).tolist()
    return outcomes


def exact_in_words(network: Network, held_out: HeldOut) -> str:
    """Counts exact runs by dialect."""
    parts = []
    for dialect, buckets in held_out.items():
        outcomes = exact_runs(network, buckets)
        parts.append(f"{sum(outcomes)} of {len(outcomes)} {dialect}")
    return ", ".join(parts) + " held-out runs exact"


def held_out_transcripts(seed: str, n_episodes: int, n_chats: int) -> Iterator[tuple[str, Episode | Chat]]:
    """Draws held-out transcripts with the name of their dialect."""
    rng = random.Random(seed)
    for _ in range(n_episodes):
        yield "ReAct", draw_episode(rng, Split.HELD_OUT, MAX_BYTES)
    for _ in range(n_chats):
        yield "chat", draw_chat(rng, Split.HELD_OUT, MAX_CHARACTERS)


def exact_runs_by_kind(network: Network, encoder: Encoder) -> dict[str, str]:
    """Returns the exact runs per dialect and kind of first question, on freshly drawn held-out transcripts."""
    groups: dict[str, list] = collections.defaultdict(list)
    for dialect, transcript in held_out_transcripts("held-out by kind", 1000, 1000):
        turns = transcript.turns
        failed = any(turn.answer.startswith("error: ") for turn in turns)
        label = f"{len(turns)} turns" if len(turns) > 1 else turns[0].kind
        label = "with a failed tool" if failed else label
        groups[f"{dialect} {label}"].append(encoder.encode_transcript(transcript, None))
    counts = {label: exact_runs(network, encoder.padded(group)) for label, group in sorted(groups.items())}
    return {label: f"{sum(outcomes)}/{len(outcomes)}" for label, outcomes in counts.items()}


def save(network: Network, recipe: Recipe, tokenizer: Tokenizer, folder: Path) -> None:
    """Writes a checkpoint that Hugging Face's `AutoModelForCausalLM` and `AutoTokenizer` load."""
    folder.mkdir(parents=True, exist_ok=True)
    pad, end = tokenizer.token_to_id(PAD), tokenizer.token_to_id(END)
    ends = {"bos_token_id": pad, "eos_token_id": end, "pad_token_id": pad}
    files = {
        "config.json": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", **dataclasses.asdict(recipe.shape),
            "head_dim": recipe.shape.head_dim, "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
            "attention_dropout": 0.0, "rope_scaling": None, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
            "initializer_range": 0.02, "use_cache": True, **ends,
        },
        "generation_config.json": {"do_sample": False, **ends},
        "tokenizer_config.json": tokenizer_config(),
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=True) + "\n")
    tensors = {f"model.{name}": value.bfloat16().contiguous() for name, value in network.state_dict().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def tokenizer_config() -> dict:
    """Returns what `AutoTokenizer` reads beside tokenizer.json, the chat template among it."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": Shape.max_position_embeddings,
        "bos_token": None, "eos_token": END, "pad_token": PAD, "unk_token": None,
        "clean_up_tokenization_spaces": False, "chat_template": CHAT_TEMPLATE.read_text(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for the checkpoints and training.log")
    parser.add_argument("--models", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--episodes", type=int, default=1_200_000)
    parser.add_argument("--processes", type=int, default=14)
    parser.add_argument("--steps", type=int, help="instead of the recipes'")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    log = Log(arguments.out / "training.log")
    torch.set_float32_matmul_precision("high")
    tokenizer = train_tokenizer()
    path = arguments.out / "tokenizer.json"
    path.write_text(tokenizer.to_str())
    # Before the first use of the GPU, since the processes that draw are forks.
    training_set = TrainingSet(path, arguments.episodes, arguments.processes)
    encoder = Encoder(tokenizer)
    log(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    groups: dict[str, list] = collections.defaultdict(list)
    for dialect, transcript in held_out_transcripts("held-out", 1000, 1000):
        groups[dialect].append(encoder.encode_transcript(transcript, None))
    held_out: HeldOut = {dialect: encoder.padded(group) for dialect, group in groups.items()}
    batches = Batches(training_set, seed=0)
    batches.take_arrived(FIRST_PARTS)
    log(f"transcripts by length, so far: {batches.counts()}")
    for name in arguments.models:
        recipe = RECIPES[name]
        if arguments.steps:
            recipe = dataclasses.replace(recipe, steps=arguments.steps)
        folder = arguments.out / name
        network = train(recipe, batches, held_out, log, lambda kept: save(kept, recipe, tokenizer, folder))
        log(f"transcripts by length: {batches.counts()}")
        log(f"{name}: {exact_in_words(network, held_out)} with weights in bfloat16")
        save(network, recipe, tokenizer, folder)
        log(f"{name} by kind: {exact_runs_by_kind(network, encoder)}")


if __name__ == "__main__":
    main()
