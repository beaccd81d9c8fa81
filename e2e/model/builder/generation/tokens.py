"""The model's alphabet: one token per UTF-8 byte, and three special ones.

Bytes need no vocabulary to be learned and no text is out of it, so names are copied in any script.
"""

N_BYTES = 256
PAD, BOS, EOS = 256, 257, 258
VOCABULARY_SIZE = 259


def encode(text: bytes) -> list[int]:
    """Returns a prompt's tokens: the beginning mark and one token per byte."""
    return [BOS, *text]


def tokenizer_json() -> dict:
    """Describes the alphabet in the format of Hugging Face's `tokenizers`: byte-level BPE without merges."""
    special = {"<pad>": PAD, "<bos>": BOS, "<eos>": EOS}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": token, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
            for text, token in special.items()
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<bos>": {"id": "<bos>", "ids": [BOS], "tokens": ["<bos>"]}},
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {character: byte for byte, character in enumerate(_byte_characters())} | special,
            "merges": [],
        },
    }


def _byte_characters() -> list[str]:
    """Returns the printable character that stands for each byte in byte-level BPE (GPT-2's table)."""
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    characters = []
    n_moved = 0
    for byte in range(N_BYTES):
        if byte in printable:
            characters.append(chr(byte))
        else:
            characters.append(chr(N_BYTES + n_moved))
            n_moved += 1
    return characters
