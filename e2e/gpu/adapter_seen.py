"""Shows, within vLLM's container, that the adapter answers in place of the model. vLLM lists it by the name of the
agent's model, and it moves the log probabilities of the likeliest tokens, which a repetition does not. Fails where
either is not so."""

import json
import sys
import urllib.request

ORIGIN = "http://127.0.0.1:8000"
ADAPTER, BASE = "agent", "agent-base"
PROMPTS = ["What is the height of", "Action: lookup", "Question: how much is 12 times 7?", "The answer is"]


def asked(path: str, body: dict | None = None) -> dict:
    """The answer of vLLM's server."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(ORIGIN + path, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def likeliest(model: str) -> list[dict[str, float]]:
    """The five likeliest next tokens after each prompt, with their log probabilities."""
    answers = [asked("/v1/completions", {"model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0,
                                         "logprobs": 5}) for prompt in PROMPTS]
    return [answer["choices"][0]["logprobs"]["top_logprobs"][0] for answer in answers]


def farthest(left: list[dict[str, float]], right: list[dict[str, float]]) -> float:
    """How far the log probability of the likeliest tokens is moved at most."""
    return max(abs(max(one.values()) - max(other.values())) for one, other in zip(left, right))


models = {model["id"]: model.get("parent") for model in asked("/v1/models")["data"]}
base, again, adapted = likeliest(BASE), likeliest(BASE), likeliest(ADAPTER)
noise, change = farthest(base, again), farthest(base, adapted)
print(json.dumps({"models": models, "noise": noise, "change": change}))
sys.exit(ADAPTER not in models or change <= 10 * noise + 1e-3)
