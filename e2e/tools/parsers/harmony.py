"""vLLM's parser of gpt-oss, which reads tokens, and the vocabulary that it needs.

The vocabulary is that of an npm package. It is kept outside the checkout.
"""

import functools
import hashlib
import importlib
import os
import re
import subprocess
import tarfile
from unittest.mock import MagicMock

PARSER = "HarmonyParser"
PACKAGE = "js-tiktoken@1.0.21"
RANKS = "package/dist/ranks/o200k_base.js"
DIGEST = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"


def prepare(folder):
    """Fetches the vocabulary once, and tells openai-harmony where it is."""
    vocabulary = folder / "o200k_base.tiktoken"
    if not vocabulary.exists():
        command = ["npm", "pack", "--silent", "--pack-destination", str(folder), PACKAGE]
        archive = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        with tarfile.open(folder / archive) as package:
            text = written(package.extractfile(RANKS).read().decode())
        digest = hashlib.sha256(text).hexdigest()
        if digest != DIGEST:
            raise SystemExit(f"{RANKS} of {PACKAGE} has the digest {digest}, and not {DIGEST}")
        vocabulary.write_bytes(text)
    os.environ["TIKTOKEN_ENCODINGS_BASE"] = str(folder)


def written(module):
    """A token and its rank a line. The package writes only the rank of the first token of each of its lines."""
    lines = re.search(r'"bpe_ranks":"([^"]*)"', module).group(1).split("\\n")
    lines = (line.split(" ")[1:] for line in lines if line)
    ranks = ((token, int(first) + index) for first, *tokens in lines for index, token in enumerate(tokens))
    return "".join(f"{token} {rank}\n" for token, rank in ranks).encode()


@functools.cache
def encoding():
    return importlib.import_module("vllm.entrypoints.openai.parser.harmony_utils").get_encoding()


def encode(text):
    return encoding().encode(text, allowed_special="all")


@functools.cache
def parser():
    """The class and its tokenizer."""
    module = importlib.import_module("vllm.parser.harmony")
    parts = {"reasoning_parser_cls": module.GptOssReasoningParser, "tool_parser_cls": module.GptOssToolParser}
    tokenizer = MagicMock()
    tokenizer.get_vocab.return_value = {"<|end|>": encode("<|end|>")[0]}
    tokenizer.encode.side_effect = encode
    tokenizer.decode.side_effect = lambda tokens: encoding().decode(tokens)
    return type(PARSER, (module.HarmonyParser,), parts), tokenizer


def read(output):
    """What upstream reads of an output, given as tokens."""
    cls, tokenizer = parser()
    try:
        thoughts, content, calls = cls(tokenizer).parse("", MagicMock(), model_output_token_ids=encode(output))
    except Exception as error:  # what upstream does not catch is its answer too
        return {"fails": str(error)}
    calls = [[call.name, call.arguments] for call in calls or []]
    return {"content": content, "thoughts": thoughts, "calls": calls}
