"""Runs a committed checkpoint in transformers: exact runs of held-out transcripts, and a record for the tests.

    python3 -m upstream.with_transformers checkpoints/react-512 --runs 500 --device cuda
    python3 -m upstream.with_transformers checkpoints/react-512 --record tests/data/transformers-react-512.json

Needs torch and transformers. The record is of 32-bit floating point on the CPU: each prompt's likeliest tokens with
their logits and the text that greedy decoding writes.
"""

import argparse
import json
import random
import time
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

from corpus.chat import Chat
from corpus.judged import held_out_transcripts

BATCH = 256
MAX_TOKENS = 200
N_RECORDED = 8
N_LOGITS = 16


class Engine:
    """A checkpoint, loaded as it is."""

    def __init__(self, folder: Path, device: str, dtype: torch.dtype) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval()

    @torch.no_grad()
    def complete(self, prompts: list[str]) -> list[str]:
        """Continues prompts greedily up to the end mark."""
        texts = []
        for start in range(0, len(prompts), BATCH):
            inputs = self.tokenizer(prompts[start : start + BATCH], return_tensors="pt", padding=True)
            inputs = inputs.to(self.model.device)
            written = self.model.generate(**inputs, max_new_tokens=MAX_TOKENS, do_sample=False)
            written = written[:, inputs["input_ids"].shape[1] :]
            texts += self.tokenizer.batch_decode(written, skip_special_tokens=True)
        return texts

    @torch.no_grad()
    def logits(self, prompt: str) -> torch.Tensor:
        """Returns the logits of the first token after a prompt."""
        inputs = self.tokenizer(prompt, return_tensors="pt").to(self.model.device)
        return self.model(**inputs).logits[0, -1].float().cpu()


def exact(engine: Engine, dialect: str, n_runs: int, seed: int) -> int:
    """Counts runs in which every call and the answer are exact; a run ends at its first mistake."""
    runs = [list(drawn.model_calls()) for drawn in held_out_transcripts(dialect, n_runs, seed)]
    alive = list(range(n_runs))
    for step in range(max(map(len, runs))):
        asked = [index for index in alive if step < len(runs[index])]
        texts = engine.complete([runs[index][step][0] for index in asked])
        wrong = {index for index, text in zip(asked, texts) if text != runs[index][step][1]}
        for index in sorted(wrong)[:3]:
            print(f"--- {dialect}: expected {runs[index][step][1]!r}, written {texts[asked.index(index)]!r}")
        alive = [index for index in alive if index not in wrong]
    return len(alive)


def template_differences(engine: Engine, n_chats: int) -> int:
    """Counts chats whose template renders to other text or tokens than the corpus has."""
    count = 0
    for chat in held_out_transcripts("chat", n_chats, 77):
        if not isinstance(chat, Chat) or chat.is_compact:
            continue
        options = {"tools": list(chat.tools) or None, "add_generation_prompt": True}
        text = engine.tokenizer.apply_chat_template(list(chat.messages[:-1]), tokenize=False, **options)
        count += text != list(chat.model_calls())[-1][0]
    return count


def record(engine: Engine) -> dict:
    """Returns prompts of both dialects with what the engine says."""
    rng = random.Random("record")
    entries = []
    for dialect in ("react", "chat"):
        for drawn in held_out_transcripts(dialect, N_RECORDED, 4711):
            prompt, _ = rng.choice(list(drawn.model_calls()))
            logits = engine.logits(prompt)
            top = torch.topk(logits, N_LOGITS)
            entries.append({
                "dialect": dialect, "prompt": prompt, "tokens": top.indices.tolist(),
                "logits": [round(value, 5) for value in top.values.tolist()], "text": engine.complete([prompt])[0],
            })
    return {"torch": torch.__version__, "transformers": transformers.__version__, "entries": entries}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16", "float32"))
    parser.add_argument("--record", type=Path, help="write the record instead of counting runs")
    arguments = parser.parse_args()
    if arguments.record:
        arguments.record.parent.mkdir(parents=True, exist_ok=True)
        content = record(Engine(arguments.checkpoint, "cpu", torch.float32))
        arguments.record.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        return
    engine = Engine(arguments.checkpoint, arguments.device, getattr(torch, arguments.dtype))
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, {arguments.dtype}")
    print(f"{template_differences(engine, 200)} of 200 chats differ from the template's rendering")
    for dialect in ("react", "chat"):
        start = time.monotonic()
        count = exact(engine, dialect, arguments.runs, arguments.seed)
        seconds = time.monotonic() - start
        name = f"{arguments.checkpoint.name} {dialect}"
        print(f"{name}: {count} of {arguments.runs} runs exact, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
