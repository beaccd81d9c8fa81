"""Shows, within vLLM's container, that its features serve. Guesses of n-grams were accepted. A prompt that the GPU's
cache has dropped is found in the host's memory. Answers are JSON of the schema that a request names. Fails where
one of them is not so.

Guesses count those of the questions that the agent was asked before, so call it afterwards.
"""

import json
import sys
import urllib.request

ORIGIN = "http://127.0.0.1:8000"
# More than half of the GPU's cache (gpu-features.yaml), so no two long prompts fit into it.
LONG = 1900
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome", "Lima"]}, "isOpen": {"type": "boolean"}},
    "required": ["city", "isOpen"],
    "additionalProperties": False,
}


def asked(path: str, body: dict | None = None) -> str:
    """The answer of vLLM's server."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(ORIGIN + path, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read().decode()


def counter(name: str) -> float:
    """The sum of a counter over its labels."""
    lines = asked("/metrics").splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + "{", name + " ")))


def complete(**more) -> str:
    """What the model adds to a prompt."""
    return json.loads(asked("/v1/completions", {"model": MODEL, "temperature": 0} | more))["choices"][0]["text"]


def speculation() -> dict:
    drafted, accepted = (counter(f"vllm:spec_decode_num_{what}_tokens_total") for what in ("draft", "accepted"))
    return {"seen": accepted > 0, "drafted": drafted, "accepted": accepted}


def offload() -> dict:
    """A long prompt, others until the GPU has dropped it, and the first again."""
    prompts = [[100 + (61 * seed + position * position) % 600 for position in range(LONG)] for seed in range(4)]
    first = [complete(prompt=prompt, max_tokens=8) for prompt in prompts][0]
    names = {"hits": "vllm:external_prefix_cache_hits_total", "loadedBytes": "vllm:kv_offload_load_bytes_total"}
    before = {name: counter(metric) for name, metric in names.items()}
    again = complete(prompt=prompts[0], max_tokens=8)
    found = {name: counter(metric) - before[name] for name, metric in names.items()}
    return found | {"seen": found["hits"] > 0, "sameAnswer": first == again,
                    "storedBytes": counter("vllm:kv_offload_store_bytes_total")}


def structured_outputs() -> dict:
    asked_for = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
    texts = [complete(prompt="Describe a place.", max_tokens=64, temperature=1.0, seed=seed, response_format=asked_for)
             for seed in range(16)]
    return {"seen": all(is_place(text) for text in texts), "answers": texts[:4]}


def is_place(text: str) -> bool:
    """Whether a text is JSON of the schema, with one space after each comma and colon, as XGrammar fixes them."""
    try:
        place = json.loads(text)
    except ValueError:
        return False
    return (place.keys() == SCHEMA["properties"].keys() and place["city"] in SCHEMA["properties"]["city"]["enum"]
            and isinstance(place["isOpen"], bool) and text == json.dumps(place))


MODEL = json.loads(asked("/v1/models"))["data"][0]["id"]
found = {"speculation": speculation(), "offload": offload(), "structuredOutputs": structured_outputs()}
print(json.dumps(found, indent=1))
sys.exit(not all(feature["seen"] for feature in found.values()))
