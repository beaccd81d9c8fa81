#!/usr/bin/env python3
"""What fields of `engine.vllm` turn on, with a real vLLM: n-gram speculation, KV offload, guided decoding, LoRA.

vLLM serves random weights (`--load-format dummy`) of a given shape, and reads its options from a file, in the form that
Slipway writes. Each feature has a server of its own, and one has all of them. A feature counts as seen when vLLM's
own counters or its answers show it:

    plain         none of them, to compare with
    speculation   drafted tokens were accepted, and greedy answers are compared with those of `plain`
    offload       a prompt that the GPU's cache has dropped is found in the host's memory
    guided        answers are JSON of the schema that the request names
    lora          the adapter gives tokens other log probabilities than the base model does
    together      all of the above in one server

    features.py --config FILE [--only NAME...] [--out FOLDER]
    features.py --checkpoint FOLDER --only lora

Random weights of a large shape give every token the same probability, with an adapter or without. So an adapter is seen
with a small checkpoint that was trained, such as e2e/model/checkpoints/react-256.

Fails unless each feature was seen. Results are written after each server.
"""
import argparse
import json
import os
import re
import shutil
import tempfile
import time
import urllib.request
from pathlib import Path

from adapter import RANK, write_adapter
from behind_runtime import MODEL, NotReady, start_vllm
from token_exact import counter

ADAPTER = "adapter"
OFFLOADED_GIB = 8
# Blocks of 16 tokens on the GPU, where offload must be seen: one sequence of 4,096 tokens and little more.
FEW_BLOCKS = 300
LONG, NEW = 3000, 128
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome", "Lima"]}, "isOpen": {"type": "boolean"},
                   "floor": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["city", "isOpen", "floor"],
    "additionalProperties": False,
}
SPECULATION = {
    "speculative-config": json.dumps({"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4,
                                      "prompt_lookup_min": 2}),
}
OFFLOAD = {"kv-offloading-size": OFFLOADED_GIB, "kv-offloading-backend": "native"}
GUIDED = {"structured-outputs-config": json.dumps({"backend": "xgrammar", "disable_any_whitespace": True})}
FEATURES = ["plain", "speculation", "offload", "guided", "lora", "together"]


def write_checkpoint(config: Path, folder: Path) -> None:
    """A checkpoint without weights. Its tokens are all bytes, so that any JSON can be written, and words."""
    from tokenizers import pre_tokenizers

    shape = json.loads(config.read_text())
    (folder / "config.json").write_text(json.dumps(shape))
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [f"w{number}" for number in range(shape["vocab_size"] - len(letters))]
    vocabulary = {token: number for number, token in enumerate([*letters, *words])}
    end = next(token for token, number in vocabulary.items() if number == shape["eos_token_id"])
    tokenizer = {
        "version": "1.0",
        "added_tokens": [{"id": shape["eos_token_id"], "content": end, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end}))


def options(feature: str, adapter: Path) -> dict:
    """The options of a server, as `server/config.yaml` has them."""
    lora = {"enable-lora": True, "max-loras": 1, "max-lora-rank": RANK,
            "lora-modules": [json.dumps({"name": ADAPTER, "path": str(adapter)})]}
    few = {"num-gpu-blocks-override": FEW_BLOCKS}
    return {
        "plain": {},
        "speculation": SPECULATION,
        "offload": OFFLOAD | few,
        "guided": GUIDED,
        "lora": lora,
        "together": SPECULATION | OFFLOAD | few | GUIDED | lora,
    }[feature]


def complete(origin: str, prompt: list[int], **more) -> dict:
    """Generates greedily; gives the choice with the tokens, and the seconds."""
    asked = {"model": MODEL, "prompt": prompt, "max_tokens": NEW, "temperature": 0, "return_token_ids": True} | more
    request = urllib.request.Request(f"{origin}/v1/completions", json.dumps(asked).encode(),
                                     {"content-type": "application/json"})
    started = time.monotonic()
    with urllib.request.urlopen(request, timeout=300) as response:
        choice = json.load(response)["choices"][0]
    return choice | {"seconds": time.monotonic() - started}


def prompt_of(seed: int, tokens: int) -> list[int]:
    """Words, a few of them again and again, so that what comes next has come before."""
    return [300 + (61 * seed + position % 50) % 250 for position in range(tokens)]


def greedy(origin: str) -> dict:
    """Greedy answers to short prompts, one after another."""
    for seed in range(3):
        complete(origin, prompt_of(50 + seed, 200))
    answers = [complete(origin, prompt_of(seed, 200), ignore_eos=True) for seed in range(8)]
    tokens, seconds = sum(len(each["token_ids"]) for each in answers), sum(each["seconds"] for each in answers)
    return {"answers": [each["token_ids"] for each in answers], "tokensPerSecond": tokens / seconds}


def alike(left: list[int], right: list[int]) -> int:
    """How many tokens two answers begin with alike."""
    return next((at for at, pair in enumerate(zip(left, right)) if pair[0] != pair[1]), min(len(left), len(right)))


def speculation(origin: str, plain: dict | None) -> dict:
    found = greedy(origin)
    drafted, accepted = (counter(origin, f"vllm:spec_decode_num_{what}_tokens_total") for what in ("draft", "accepted"))
    same = plain and [alike(*pair) for pair in zip(plain["answers"], found["answers"])]
    return {"seen": accepted > 0, "drafted": drafted, "accepted": accepted, "sameTokensAsPlain": same,
            "tokensPerSecond": found["tokensPerSecond"], "plainTokensPerSecond": plain and plain["tokensPerSecond"]}


def offload(origin: str) -> dict:
    """A long prompt, others until the GPU has dropped it, and the first again."""
    first = complete(origin, prompt_of(0, LONG), max_tokens=8)
    for seed in range(1, 4):
        complete(origin, prompt_of(seed, LONG), max_tokens=8)
    names = {"hits": "vllm:external_prefix_cache_hits_total", "loadedBytes": "vllm:kv_offload_load_bytes_total",
             "storedBytes": "vllm:kv_offload_store_bytes_total"}
    before = {name: counter(origin, metric) for name, metric in names.items()}
    again = complete(origin, prompt_of(0, LONG), max_tokens=8)
    found = {name: counter(origin, metric) - before[name] for name, metric in names.items()}
    found["storedBytes"] += before["storedBytes"]
    return found | {"seen": found["hits"] > 0, "same": first["token_ids"] == again["token_ids"],
                    "firstSeconds": first["seconds"], "againSeconds": again["seconds"]}


def guided(origin: str) -> dict:
    asked = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
    texts = [complete(origin, prompt_of(seed, 50), response_format=asked, temperature=1.0, seed=seed)["text"]
             for seed in range(16)]
    return {"seen": all(is_place(text) for text in texts), "answers": texts[:4]}


def is_place(text: str) -> bool:
    try:
        place = json.loads(text)
    except ValueError:
        return False
    return (place.keys() == SCHEMA["properties"].keys() and place["city"] in SCHEMA["properties"]["city"]["enum"]
            and isinstance(place["isOpen"], bool) and place["floor"] in range(10))


def lora(origin: str) -> dict:
    """How far an adapter moves the least of the likeliest tokens' log probabilities, beside what a repetition does."""
    with urllib.request.urlopen(f"{origin}/v1/models", timeout=30) as response:
        names = [model["id"] for model in json.load(response)["data"]]

    def likelihoods(model: str) -> list[float]:
        answers = [complete(origin, prompt_of(seed, 50), model=model, max_tokens=8, logprobs=5) for seed in range(4)]
        return [min(top.values()) for answer in answers for top in answer["logprobs"]["top_logprobs"]]

    base, again, other = likelihoods(MODEL), likelihoods(MODEL), likelihoods(ADAPTER)
    noise, change = farthest(base, again), farthest(base, other)
    return {"seen": change > 10 * noise + 1e-4 and ADAPTER in names, "models": names, "noise": noise, "change": change,
            "base": base[:4], "withAdapter": other[:4]}


def farthest(left: list[float], right: list[float]) -> float:
    return max(abs(one - other) for one, other in zip(left, right))


def memory(log: str) -> dict:
    """What vLLM's log says of memory."""
    numbers = {"kvCacheTokens": r"GPU KV cache size: ([\d,]+) tokens", "kvCacheGiB": r"KV cache memory: ([\d.]+) GiB",
               "weightsGiB": r"[Mm]odel loading took ([\d.]+) GiB"}
    found = {name: re.search(pattern, log) for name, pattern in numbers.items()}
    return {name: float(match[1].replace(",", "")) for name, match in found.items() if match}


def see(feature: str, origin: str, rows: dict) -> dict:
    """Asks a server for what shows its features."""
    plain = rows.get("plain", {}).get("plain")
    checks = {"plain": lambda: greedy(origin) | {"seen": True}, "speculation": lambda: speculation(origin, plain),
              "offload": lambda: offload(origin), "guided": lambda: guided(origin), "lora": lambda: lora(origin)}
    names = FEATURES[1:-1] if feature == "together" else [feature]
    return {name: checks[name]() for name in names}


def of_weights(folder: Path) -> tuple[str, ...]:
    """The options of a checkpoint that has weights; its context may be shorter."""
    if not (folder / "model.safetensors").exists():
        return ()
    length = json.loads((folder / "config.json").read_text())["max_position_embeddings"]
    return ("--load-format", "auto", "--max-model-len", str(min(length, 4096)))


def serve(feature: str, folder: Path, out: Path, rows: dict) -> dict:
    """Starts a server with a feature, and looks for it."""
    own = out / feature
    own.mkdir(exist_ok=True)
    # JSON is YAML.
    (own / "config.yaml").write_text(json.dumps(options(feature, folder / ADAPTER), indent=1))
    started = time.monotonic()
    process, origin = start_vllm(folder, own, (*of_weights(folder), "--config", own / "config.yaml"))
    try:
        ready = time.monotonic() - started
        return see(feature, origin, rows) | {"readySeconds": ready, "memory": memory((own / "vllm.log").read_text())}
    finally:
        process.terminate()
        process.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--config", type=Path, help="shape of random weights")
    model.add_argument("--checkpoint", type=Path, help="folder of a checkpoint with its own weights")
    parser.add_argument("--only", nargs="+", choices=FEATURES, default=FEATURES)
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", tempfile.gettempdir())))
    asked = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as name:
        if asked.checkpoint:
            shutil.copytree(asked.checkpoint, name, dirs_exist_ok=True)
        else:
            write_checkpoint(asked.config, Path(name))
        write_adapter(Path(name) / "config.json", Path(name) / ADAPTER)
        for feature in asked.only:
            try:
                rows[feature] = serve(feature, Path(name), asked.out, rows)
            except (NotReady, OSError) as error:
                rows[feature] = {feature: {"seen": False, "error": str(error)}}
            (asked.out / "features.json").write_text(json.dumps(rows, indent=1))
            shown = {key: {name: value for name, value in part.items() if name != "answers" or key == "guided"}
                     if isinstance(part, dict) else part for key, part in rows[feature].items()}
            print(feature, json.dumps(shown), flush=True)
    missing = [f"{feature}: {name}" for feature, row in rows.items() for name, part in row.items()
               if isinstance(part, dict) and not part.get("seen", True)]
    if missing:
        raise SystemExit(f"not seen: {missing}")


if __name__ == "__main__":
    main()
