"""Generation: batching, stopping, checks."""

import pytest

from builder.generation.batcher import Batcher, FinishReason, Progress
from builder.generation.engine import Engine, load_engine
from builder.generation.request import GenerationRequest, InvalidRequest, checked_request
from builder.generation.text import GrowingText
from corpus.judged import held_out_transcripts

END = 256


class Bytes:
    """A vocabulary of single bytes and an end."""

    ends = frozenset({END})

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def piece(self, token: int) -> bytes:
        return bytes([token])


class Parrot:
    """A decoder that repeats its prompt, byte by byte, and checks that rows are used as a cache would need it."""

    def __init__(self, n_rows: int, context_length: int = 64) -> None:
        self.n_rows = n_rows
        self.context_length = context_length
        self.rows: list[list[int]] = [[] for _ in range(n_rows)]
        self.prompts: list[tuple[int, ...]] = [()] * n_rows
        self.batch_sizes: list[int] = []

    def prefill(self, row: int, tokens: tuple[int, ...]) -> int:
        self.rows[row], self.prompts[row] = list(tokens), tokens
        return self._next(row)

    def step(self, tokens: list[int], positions: list[int]) -> list[int]:
        self.batch_sizes.append(len(tokens))
        for row, (token, position) in enumerate(zip(tokens, positions)):
            assert position == len(self.rows[row]), "a token goes behind the row's last one"
            self.rows[row].append(token)
        return [self._next(row) for row in range(len(tokens))]

    def move_row(self, source: int, target: int, length: int) -> None:
        assert length == len(self.rows[source])
        self.rows[target], self.prompts[target] = self.rows[source], self.prompts[source]

    def _next(self, row: int) -> int:
        prompt = self.prompts[row]
        n_written = len(self.rows[row]) - len(prompt)
        return prompt[n_written] if n_written < len(prompt) else END


def parrot(n_rows: int, context_length: int = 64) -> Engine:
    return Engine(Parrot(n_rows, context_length), Bytes())


def request(text: bytes, max_tokens: int = 100, stop_words: tuple[bytes, ...] = ()) -> GenerationRequest:
    return GenerationRequest(tuple(text), max_tokens, stop_words)


def run(batcher: Batcher) -> dict[str, tuple[str, int, FinishReason]]:
    """Generates until idle and returns text, number of tokens and reason of each request."""
    texts: dict[str, str] = {}
    results = {}
    while not batcher.is_idle:
        for progress in batcher.step():
            texts[progress.key] = texts.get(progress.key, "") + progress.text
            if progress.finish_reason:
                results[progress.key] = (texts[progress.key], progress.n_tokens, progress.finish_reason)
    return results


def test_requests_of_all_lengths_share_rows_and_keep_their_texts():
    batcher = Batcher(parrot(n_rows=3))
    texts = {f"r{index}": "abcdefghijklmnop"[: 1 + (5 * index) % 13] for index in range(12)}
    for key, text in texts.items():
        batcher.submit(key, request(text.encode()))
    assert run(batcher) == {key: (text, len(text) + 1, FinishReason.STOP) for key, text in texts.items()}


def test_a_request_joins_the_batch_that_is_running():
    engine = parrot(n_rows=4)
    batcher = Batcher(engine)
    batcher.submit("early", request(b"0123456789"))
    batcher.step()
    batcher.submit("late", request(b"abc"))
    batcher.step()
    assert engine.decoder.batch_sizes == [1, 2]
    assert run(batcher)["early"][2] is FinishReason.STOP


def test_a_cancelled_request_frees_its_row_for_one_that_waits():
    batcher = Batcher(parrot(n_rows=1))
    batcher.submit("cancelled", request(b"0123456789"))
    batcher.submit("waiting", request(b"abc"))
    batcher.step()
    assert batcher.cancel("cancelled") == 2
    assert run(batcher) == {"waiting": ("abc", 4, FinishReason.STOP)}


def test_a_request_that_waits_can_be_cancelled():
    batcher = Batcher(parrot(n_rows=1))
    batcher.submit("running", request(b"abc"))
    batcher.submit("cancelled", request(b"0123456789"))
    batcher.cancel("cancelled")
    assert batcher.keys() == ["running"]
    assert run(batcher) == {"running": ("abc", 4, FinishReason.STOP)}


def test_generation_ends_at_max_tokens():
    batcher = Batcher(parrot(n_rows=1))
    batcher.submit("r", request(b"0123456789", max_tokens=4))
    assert run(batcher) == {"r": ("0123", 4, FinishReason.LENGTH)}


def test_generation_ends_where_the_context_ends():
    batcher = Batcher(parrot(n_rows=1, context_length=16))
    batcher.submit("r", request(b"0123456789"))
    # Ten tokens of prompt leave six positions; the last token needs none.
    assert run(batcher) == {"r": ("0123456", 7, FinishReason.LENGTH)}


def test_a_stop_word_ends_generation_and_is_no_part_of_the_text():
    batcher = Batcher(parrot(n_rows=1))
    batcher.submit("r", request(b"one\n\ntwo", stop_words=(b"\n\n", b"two")))
    assert run(batcher) == {"r": ("one", 5, FinishReason.STOP)}


def test_progress_tells_tokens_so_far_and_holds_back_what_may_be_a_stop_word():
    batcher = Batcher(parrot(n_rows=1))
    batcher.submit("r", request(b"a\nb", stop_words=(b"\n\n",)))
    progress = []
    while not batcher.is_idle:
        progress += batcher.step()
    assert progress == [
        Progress("r", "a", 1, None),
        Progress("r", "", 2, None),
        Progress("r", "\nb", 3, None),
        Progress("r", "", 4, FinishReason.STOP),
    ]


def test_pieces_never_split_a_character():
    text = GrowingText(stop_words=())
    pieces = []
    for byte in "né→".encode():
        text.push(bytes([byte]))
        pieces.append(text.take())
    assert pieces == ["n", "", "é", "", "", "→"]


def test_a_cut_off_character_is_replaced_and_not_dropped():
    text = GrowingText(stop_words=())
    text.push("é".encode()[:1])
    text.finish()
    assert text.take() == "\ufffd"


def test_a_stop_word_may_end_within_a_token():
    text = GrowingText(stop_words=(b"END",))
    assert [text.push(piece) for piece in (b"one E", b"ND and")] == [False, True]
    assert text.take() == "one "


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"text_input": b""}, "text_input: the prompt is empty; send at least one character"),
        ({"max_tokens": 0}, "max_tokens: must be at least 1, got 0"),
        ({"stop_words": [b""]}, "stop_words: a stop word is empty; leave it out"),
        ({"stop_words": [b"x"] * 17}, "stop_words: at most 16 words, got 17"),
        (
            {"text_input": b"x" * 64},
            "text_input: the prompt has 64 tokens, the model's context holds 64 with the answer; shorten the prompt",
        ),
    ],
)
def test_a_bad_request_is_refused_by_the_name_of_its_input(inputs, message):
    good = {"text_input": b"x", "max_tokens": 1, "stop_words": [b"\n\n"]}
    fixed = {"vocabulary": Bytes(), "context_length": 64}
    with pytest.raises(InvalidRequest, match=f"^{message}$".replace("'", ".")):
        checked_request(**(good | fixed | inputs))


@pytest.mark.parametrize(("model", "precision"), [("react-256", "FP32"), ("react-256", "INT8"), ("react-512", "INT8")])
def test_a_text_does_not_depend_on_the_requests_it_was_batched_with(engine, model, precision):
    network = engine(model, precision)
    transcripts = held_out_transcripts("react", 9, 7) + held_out_transcripts("chat", 3, 7)
    prompts = [next(transcript.model_calls())[0] for transcript in transcripts]
    requests = [
        checked_request(prompt.encode(), 40, [], network.vocabulary, network.context_length) for prompt in prompts
    ]
    together = Batcher(network)
    for index, item in enumerate(requests):
        together.submit(index, item)
    alone = {}
    for index, item in enumerate(requests):
        batcher = Batcher(network)
        batcher.submit(index, item)
        alone |= run(batcher)
    assert run(together) == alone


def test_extra_compute_changes_nothing_but_the_work(build, engine):
    folder = build("react-256", "FP32") / "agent" / "1"
    slowed = load_engine(folder, n_rows=2, n_threads=1, extra_compute_percent=150)
    prompt = "Question: What is the area of Rema?\n"
    results = []
    for network in (engine("react-256", "FP32"), slowed):
        batcher = Batcher(network)
        batcher.submit("r", checked_request(
            prompt.encode(), 60, [b"\n\n"], network.vocabulary, network.context_length
        ))
        results.append(run(batcher))
    assert results[0] == results[1] == {"r": ("Action: lookup[Rema.area]", 14, FinishReason.STOP)}
