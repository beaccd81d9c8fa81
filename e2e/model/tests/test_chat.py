"""The chat dialect: the checkpoint's own template, its tokens, and what tool parsers read."""

import json
import random
import re

import jinja2
import jinja2.sandbox
import pytest
from conftest import ROOT
from tokenizers import Tokenizer

from corpus.chat import END, Chat, chat_turn, draw_chat, rendered
from corpus.episodes import MAX_BYTES, draw_episode, numbers_of
from corpus.split import Kind, Split, split_of
from corpus.tools import DEMO_CALC, DEMO_LOOKUP, DEMO_TOOLS
from training.dataset import COMPLETION, Encoder
from training.vocabulary import SIZE, TAGS

MODELS = ("react-512", "react-256")
N_CHATS = 300
CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
"""What vLLM's parser `hermes` takes for a call."""


def drawn(split: Split) -> list[Chat]:
    rng = random.Random("chats")
    return [draw_chat(rng, split, 4000) for _ in range(N_CHATS)]


@pytest.fixture(scope="module")
def training():
    return drawn(Split.TRAINING)


@pytest.fixture(scope="module")
def held_out():
    return drawn(Split.HELD_OUT)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(ROOT / "checkpoints" / "react-512" / "tokenizer.json"))


@pytest.fixture(scope="module")
def template() -> jinja2.Template:
    """The template as transformers compiles it."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    config = json.loads((ROOT / "checkpoints" / "react-512" / "tokenizer_config.json").read_text())
    return environment.from_string(config["chat_template"])


def test_the_template_renders_what_the_model_was_trained_on(template, held_out):
    chats = [chat for chat in held_out if not chat.is_compact]
    assert len(chats) > 200
    for chat in chats:
        prompt = template.render(messages=chat.messages[:-1], tools=chat.tools or None, add_generation_prompt=True)
        assert prompt == list(chat.model_calls())[-1][0]
        assert template.render(messages=chat.messages, tools=chat.tools or None) == f"{chat.text()}{END}\n"


def test_arguments_may_be_a_text_and_calls_may_come_with_a_content(template):
    function = {"name": "calc", "arguments": '{"expression": "1+2"}'}
    calls = [{"function": function}, {"function": function}]
    message = {"role": "assistant", "content": "Let me see.", "tool_calls": calls}
    call = '<tool_call>\n{"name": "calc", "arguments": {"expression": "1+2"}}\n</tool_call>'
    assert template.render(messages=[message]) == f"<|im_start|>assistant\nLet me see.\n{call}\n{call}{END}\n"


def test_both_checkpoints_have_the_template_and_the_tokenizer_of_the_training_code():
    for model in MODELS:
        folder = ROOT / "checkpoints" / model
        config = json.loads((folder / "tokenizer_config.json").read_text())
        assert config["chat_template"] == (ROOT / "training" / "chat_template.jinja").read_text()
        assert (folder / "tokenizer.json").read_bytes() == (ROOT / "checkpoints/react-512/tokenizer.json").read_bytes()


def test_tokens_are_bytes_then_special_ones_then_merges_of_letters_or_of_punctuation(tokenizer):
    assert tokenizer.get_vocab_size() == SIZE
    assert tokenizer.encode("0 a\n").ids == [48, 32, 97, 10]
    assert [tokenizer.token_to_id(token) for token in ("<|endoftext|>", "<|im_start|>", END)] == [256, 257, 258]
    assert [tokenizer.token_to_id(token) for token in TAGS] == list(range(259, 265))
    first_merge = 265
    for token in range(first_merge, SIZE):
        text = tokenizer.decode([token])
        assert re.fullmatch(r"""[^\W\d_]+| ?[{}":,]+|�+""", text), (token, text)


def test_a_checkpoint_names_its_end_everywhere_alike():
    for model in MODELS:
        folder = ROOT / "checkpoints" / model
        read = {name: json.loads((folder / name).read_text()) for name in ("config.json", "generation_config.json")}
        assert {content["eos_token_id"] for content in read.values()} == {258}
        assert json.loads((folder / "tokenizer_config.json").read_text())["eos_token"] == END


def test_texts_have_the_same_tokens_in_one_piece_and_in_parts(tokenizer, held_out):
    episodes = [draw_episode(random.Random(seed), Split.HELD_OUT, MAX_BYTES) for seed in range(100)]
    for transcript in (*episodes, *held_out[:100]):
        parts = [tokenizer.encode(text).ids for text, _ in transcript.pieces()]
        assert sum(parts, []) == tokenizer.encode(transcript.text()).ids
        assert tokenizer.decode(sum(parts, []), skip_special_tokens=False) == transcript.text()


def test_the_model_is_taught_to_end_after_each_completion(tokenizer, training):
    encoder = Encoder(tokenizer)
    episodes = [draw_episode(random.Random(seed), Split.TRAINING, MAX_BYTES) for seed in range(20)]
    for transcript in (*episodes, *training[:20]):
        tokens, labels, roles = encoder.encode_transcript(transcript, None)
        written = [label for label, role in zip(labels, roles) if role == COMPLETION]
        expected = [
            label for _, text in transcript.model_calls() for label in [*tokenizer.encode(text).ids, encoder.end]
        ]
        assert tokens == tokenizer.encode(transcript.text()).ids
        assert written == expected


def test_a_parser_reads_the_calls_that_are_expected(held_out):
    n_calls = 0
    for chat in held_out:
        asked = [message for message in chat.messages[chat.n_told :] if message["role"] == "assistant"]
        texts = [completion for _, completion in chat.model_calls()]
        assert len(asked) == len(texts)
        for message, text in zip(asked, texts):
            read = [json.loads(call) for call in CALL.findall(text)]
            expected = [dict(call["function"]) for call in message.get("tool_calls", ())]
            assert read == expected
            assert CALL.sub("", text).strip() == (message.get("content") or "")
            n_calls += len(read)
    assert n_calls > 300


def test_no_number_name_or_signature_of_a_held_out_chat_can_occur_in_training(training, held_out):
    for split, chats in ((Split.TRAINING, training), (Split.HELD_OUT, held_out)):
        numbers = {number for chat in chats for message in chat.messages for number in numbers_of(said(message))}
        assert len(numbers) > 200 and {split_of(Kind.NUMBER, number) for number in numbers} == {split}
        signatures = {signature for chat in chats for signature in used_signatures(chat)}
        signatures -= {DEMO_LOOKUP.signature, DEMO_CALC.signature}
        assert len(signatures) > 30 and {split_of(Kind.SIGNATURE, text) for text in signatures} == {split}


def said(message: dict) -> str:
    """The text of a message that is drawn: not the calls, whose numbers were said before."""
    return message.get("content") or ""


def used_signatures(chat: Chat) -> set[str]:
    calls = [call["function"] for message in chat.messages for call in message.get("tool_calls", ())]
    return {f"{call['name']}({','.join(call['arguments'])})" for call in calls}


def test_the_demo_s_agent_is_asked_and_answered_in_this_dialect():
    turns = draw_episode(random.Random(4), Split.HELD_OUT, MAX_BYTES).turns[:1]
    messages = tuple(message for turn in turns for message in chat_turn(turn, DEMO_TOOLS))
    text = "".join(rendered(messages, DEMO_TOOLS.described))
    assert text.startswith("<|im_start|>system\n# Tools\n\n")
    assert text.endswith(f"<|im_start|>assistant\n{turns[0].answer}{END}\n")
