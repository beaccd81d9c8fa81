"""The builder's options and files, and the model, with a stand-in for Triton's module. Standard library only.

    python3 -B -m unittest discover --start-directory tests
"""

import importlib.util
import json
import math
import queue
import statistics
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path

ROOT = Path(__file__).parent.parent
DEFAULTS = {"medianMilliseconds": "40", "sigma": "0.5", "seed": "0",
            "errorPercent": "0", "hangAfter": "-1", "crashAfter": "-1", "echo": "0", "lookUp": "0"}


def build(root: Path, task: object) -> subprocess.CompletedProcess:
    (root / "task").mkdir(exist_ok=True)
    (root / "output").mkdir(exist_ok=True)
    (root / "task" / "build.json").write_text(json.dumps(task))
    command = [sys.executable, "-B", "-m", "builder", "build", "--root", str(root)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def load_model() -> types.ModuleType:
    """Loads model.py with stand-ins for the modules that only Triton's image has."""
    triton = types.ModuleType("triton_python_backend_utils")
    triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
    triton.TritonError = lambda message, code: (message, code)
    triton.TritonError.CANCELLED, triton.TritonError.INTERNAL = "CANCELLED", "INTERNAL"
    triton.Tensor = lambda name, values: (name, values)
    triton.InferenceResponse = lambda tensors, error=None: error or dict(tensors)
    triton.get_input_tensor_by_name = lambda request, name: request.inputs.get(name)
    numpy = types.ModuleType("numpy")
    numpy.array = lambda values, dtype: values[0]
    numpy.object_, numpy.int32 = object, int
    given = {name: sys.modules.get(name) for name in ("triton_python_backend_utils", "numpy")}
    sys.modules |= {"triton_python_backend_utils": triton, "numpy": numpy}
    try:
        spec = importlib.util.spec_from_file_location("lognormal_model", ROOT / "builder" / "model.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    finally:
        for name, before in given.items():
            if before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = before


MODEL = load_model()


class Tensor:
    """An input."""

    def __init__(self, values: list) -> None:
        self._values = values

    def as_numpy(self) -> "Tensor":
        return self

    def reshape(self, _) -> "Tensor":
        return self

    def tolist(self) -> list:
        return self._values


class Request:
    """A request, which is its own sender and puts answers into a queue."""

    def __init__(self, answers: queue.SimpleQueue, max_tokens: int = 256, said: bytes = b"") -> None:
        prompt = b"System: Be brief.\nQuestion: Why?\n" + said
        self.inputs = {"text_input": Tensor([prompt]), "max_tokens": Tensor([max_tokens]), "stop_words": Tensor([b"\n\n"])}
        self.is_cancelled = lambda: False
        self._answers = answers

    def get_response_sender(self) -> "Request":
        return self

    def send(self, response: object, flags: int) -> None:
        self._answers.put((response, flags))


def behaviour(**changed: object) -> "MODEL.Behaviour":
    defaults = {"median_seconds": 0.04, "sigma": 0.5, "seed": 0, "error_share": 0.0, "hang_after": -1, "crash_after": -1,
                "is_echo": False, "looks_up": False}
    return MODEL.Behaviour(**(defaults | changed))


class Building(unittest.TestCase):
    """What the builder writes, and what it refuses."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def test_options_become_parameters_of_the_model(self) -> None:
        result = build(self.root, {"precision": "FP32", "options": {"medianMilliseconds": "60", "sigma": "0.25"}})
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        model = self.root / "output" / "model_repository" / "agent"
        self.assertEqual((model / "1" / "model.py").read_bytes(), (ROOT / "builder" / "model.py").read_bytes())
        config = (model / "config.pbtxt").read_text()
        for key, value in (DEFAULTS | {"medianMilliseconds": "60", "sigma": "0.25"}).items():
            self.assertIn(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n', config)
        self.assertIn("decoupled: true", config)

    def test_a_bad_task_is_refused_by_the_name_of_its_field(self) -> None:
        cases = {
            "options.medianMilliseconds: expected a whole number from 1 to 600000, got 0": {"medianMilliseconds": "0"},
            "options.sigma: expected a number from 0 to 4, got wide": {"sigma": "wide"},
            "options.errorPercent: expected a whole number from 0 to 100, got 2.5": {"errorPercent": "2.5"},
            "unknown option median; known are medianMilliseconds, sigma, seed, errorPercent, hangAfter, crashAfter, echo, lookUp":
                {"median": "40"},
        }
        for message, options in cases.items():
            result = build(self.root, {"precision": "FP32", "options": options})
            self.assertEqual((result.returncode, result.stderr), (1, f"error: {message}\n"))


class Drawing(unittest.TestCase):
    """The fates of requests."""

    def test_waits_are_log_normal_and_the_same_for_the_same_pod(self) -> None:
        fates = MODEL.Fates(behaviour(), "pod-a")
        waits = [fates.draw().wait_seconds for _ in range(4000)]
        logs = [math.log(wait / 0.04) for wait in waits]
        self.assertAlmostEqual(statistics.mean(logs), 0.0, delta=0.04)
        self.assertAlmostEqual(statistics.stdev(logs), 0.5, delta=0.03)
        again = MODEL.Fates(behaviour(), "pod-a")
        self.assertEqual(waits, [again.draw().wait_seconds for _ in range(4000)])
        other = MODEL.Fates(behaviour(), "pod-b")
        self.assertNotEqual(waits[0], other.draw().wait_seconds)

    def test_errors_come_as_often_as_ordered(self) -> None:
        fates = MODEL.Fates(behaviour(error_share=0.05), "pod")
        self.assertAlmostEqual(sum(fates.draw().is_error for _ in range(10_000)), 500, delta=90)

    def test_hanging_and_crashing_begin_after_the_ordered_number(self) -> None:
        fates = MODEL.Fates(behaviour(hang_after=2, crash_after=3), "pod")
        drawn = [fates.draw() for _ in range(5)]
        self.assertEqual([math.isinf(fate.wait_seconds) for fate in drawn], [False, False, True, True, True])
        self.assertEqual([fate.is_crash for fate in drawn], [False, False, False, True, True])


class Answering(unittest.TestCase):
    """The model's thread."""

    def start(self, **options: str):
        parameters = {key: {"string_value": value} for key, value in (DEFAULTS | options).items()}
        model = MODEL.TritonPythonModel()
        model.initialize({"model_config": json.dumps({"parameters": parameters})})
        self.addCleanup(model.finalize)
        self.answers = queue.SimpleQueue()
        return model

    def test_an_answer_ends_at_its_stop_word(self) -> None:
        self.start(medianMilliseconds="1").execute([Request(self.answers)])
        answer = {"text_output": b"Answer: 42", "finish_reason": b"stop", "output_tokens": 12}
        self.assertEqual(self.answers.get(timeout=10), (answer, 1))

    def test_an_echo_answers_with_the_first_line_of_its_prompt(self) -> None:
        self.start(medianMilliseconds="1", echo="1").execute([Request(self.answers)])
        self.assertEqual(self.answers.get(timeout=10)[0]["text_output"], b"Answer: System: Be brief.")

    def test_what_is_to_be_looked_up_is_looked_up_once(self) -> None:
        model = self.start(medianMilliseconds="1", lookUp="1")
        model.execute([Request(self.answers)])
        self.assertEqual(self.answers.get(timeout=10)[0]["text_output"], b"Action: lookup[Ada.age]")
        model.execute([Request(self.answers, said=b"Action: lookup[Ada.age]\n\nObservation: 36\n")])
        self.assertEqual(self.answers.get(timeout=10)[0]["text_output"], b"Answer: 42")

    def test_an_answer_ends_at_its_length(self) -> None:
        self.start(medianMilliseconds="1").execute([Request(self.answers, max_tokens=3)])
        answer = {"text_output": b"Ans", "finish_reason": b"length", "output_tokens": 3}
        self.assertEqual(self.answers.get(timeout=10), (answer, 1))

    def test_waits_do_not_block_each_other(self) -> None:
        model = self.start()
        waits = [3600.0] * 100 + [0.0]
        model._fates.draw = lambda: MODEL.Fate(waits.pop(0), is_error=False, is_crash=False)
        requests = [Request(self.answers) for _ in waits]
        model.execute(requests)
        self.assertEqual(self.answers.get(timeout=10)[0]["finish_reason"], b"stop")
        self.assertTrue(self.answers.empty())

    def test_an_ordered_error_is_one(self) -> None:
        self.start(medianMilliseconds="1", errorPercent="100").execute([Request(self.answers)])
        error = ("failed as ordered by the option errorPercent", "INTERNAL")
        self.assertEqual(self.answers.get(timeout=10), (error, 1))

    def test_a_request_that_hangs_ends_when_its_caller_goes(self) -> None:
        model = self.start(hangAfter="0")
        request = Request(self.answers)
        model.execute([request])
        request.is_cancelled = lambda: True
        self.assertEqual(self.answers.get(timeout=10), (("the request was cancelled", "CANCELLED"), 1))


if __name__ == "__main__":
    unittest.main()
