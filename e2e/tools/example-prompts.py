#!/usr/bin/env python3
"""Compares what agents of docs/examples ask their engine for with what transformers writes, byte for byte.

The examples of Qwen3 and of Llama 3.1 name no prompt template, so that their checkpoint's chat template writes the
prompts. The templates are the models' own, from llama-cpp-python's source package, which `template-parity.py` fetches.
The agent runtime's binary runs with what the examples say of the agent. A stand-in for vLLM's server keeps its
requests, answers with a call as the model writes it, and then with text. The tool is a stand-in too. No model is
involved.

Usage: example-prompts.py --binary BINARY --folder FOLDER, the folder being that of template-parity.py.
"""

import argparse
import http.server
import importlib.util
import json
import sys
import tarfile
import tempfile
import threading
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "docs/examples"
sys.path.insert(0, str(HERE.parent / "clients"))
spec = importlib.util.spec_from_file_location("template_parity", HERE / "template-parity.py")
parity = importlib.util.module_from_spec(spec)
spec.loader.exec_module(parity)

QUESTION = "Which lamps are below 30 €?\n\n- desk\n- floor"
ARGUMENTS = {"query": "lamp \"desk\" – up to 30 €", "limit": 5}
RESULT = '[{"name": "Lumo", "price": 29.9}]'
LAST = "Lumo, at 29.90 €."
THANKS = "Thanks. And chairs?"
# The example, its model's template, its special tokens, and how the model writes a call.
AGENTS = {
    "agent-qwen3.yaml": (
        "Qwen-Qwen3-0.6B",
        {"eos_token": "<|im_end|>"},
        "<think>\nA search.\n</think>\n\n<tool_call>\n%s\n</tool_call>",
        "arguments",
    ),
    "agent-llama-3.1.yaml": (
        "meta-llama-Llama-3.1-8B-Instruct",
        {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
        "%s",
        "parameters",
    ),
}


class StandIn(http.server.BaseHTTPRequestHandler):
    """The engine and the tool."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_args):
        """Says nothing."""

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer("application/json", b'{"data": []}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/search":
            self.server.searched.append(body)
            return self.answer("application/json", RESULT.encode())
        text = "ok"
        if not self.headers.get("x-request-id", "").startswith("warm-up"):
            self.server.requests.append(body)
            text = self.server.replies.pop(0)
        chunk = {"choices": [{"index": 0, "text": text, "finish_reason": "stop"}],
                 "usage": {"prompt_tokens": 9, "completion_tokens": 7}}
        if not body["stream"]:
            return self.answer("application/json", json.dumps(chunk).encode())
        self.answer("text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())


def configuration(agent, origin):
    """What the operator writes of an example's agent, with the tool at the stand-in."""
    sampling = agent.get("sampling", {})
    thousandths = {name: round(float(sampling[name]) * 1000) for name in ("temperature", "topP") if name in sampling}
    tools = []
    for tool in agent["tools"]:
        # The API server keeps a schema as a map, whose keys it sorts.
        schema = json.loads(json.dumps(tool["inputSchema"], sort_keys=True))
        names = sorted(tool["inputSchema"]["properties"])
        call = {"url": f"{origin}/search", "method": "POST", "parameters": [{"name": name} for name in names]}
        tools.append({"name": tool["name"], "description": tool["description"], "inputSchema": schema,
                      "kind": {"http": {**call, "idempotent": True}}})
    given = {f"{name}Thousandths": value for name, value in thousandths.items()}
    given |= {"topK": sampling["topK"]} if "topK" in sampling else {}
    return {"systemPrompt": agent["systemPrompt"], "tools": tools, "sampling": given,
            "maxTokensPerStep": agent["maxOutputTokens"]}


def functions(agent):
    """The tools as a caller of transformers gives them."""
    return [{"type": "function", "function": {"name": tool["name"], "description": tool["description"],
                                               "parameters": tool["inputSchema"]}} for tool in agent["tools"]]


def chat(origin, messages):
    request = urllib.request.Request(f"{origin}/v1/chat/completions", json.dumps({"messages": messages}).encode(),
                                     {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["choices"][0]["message"]["content"]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"the run failed: {error.read().decode()}") from error


def asked(binary, template, tokens, agent, replies):
    """Asks a question and goes on; returns the requests at the engine and at the tool."""
    from run import start_runtime

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    server.requests, server.searched, server.replies = [], [], list(replies)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = folder / "model"
        model.mkdir()
        (model / "chat_template.jinja").write_text(template)
        (model / "tokenizer_config.json").write_text(json.dumps(tokens))
        more = configuration(agent, origin) | {"chatTemplate": {"folder": str(model)}}
        process, api = start_runtime(binary, origin, folder, more)
        try:
            first = {"role": "user", "content": QUESTION}
            said = chat(api, [first])
            assert said == LAST, said
            chat(api, [first, {"role": "assistant", "content": said}, {"role": "user", "content": THANKS}])
        finally:
            process.kill()
            process.wait()
    return server.requests, server.searched


def expected(template, tokens, agent, has_thoughts):
    """What transformers writes for the same conversations."""
    from transformers.utils import chat_template_utils

    call = {"type": "function", "id": "c00010000", "function": {"name": "search", "arguments": ARGUMENTS}}
    begin = [{"role": "system", "content": agent["systemPrompt"]}, {"role": "user", "content": QUESTION}]
    thoughts = {"reasoning_content": "A search."} if has_thoughts else {}
    turn = {"role": "assistant", "content": "", "tool_calls": [call], **thoughts}
    result = {"role": "tool", "tool_call_id": "c00010000", "name": "search", "content": RESULT}
    later = [{"role": "assistant", "content": LAST}, {"role": "user", "content": THANKS}]
    texts, _ = chat_template_utils.render_jinja_template(
        conversations=[begin, [*begin, turn, result], begin + later], tools=functions(agent), chat_template=template,
        add_generation_prompt=True, **tokens)
    return texts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    arguments = parser.parse_args()
    parity.enter_environment(arguments.folder)
    import yaml

    with tarfile.open(
        parity.fetch(arguments.folder, sys.executable, "llama-cpp-python", parity.LLAMA_CPP_PYTHON)
    ) as archive:
        members = [member for member in archive if "/models/templates/" in member.name]
        templates = {Path(one.name).stem: archive.extractfile(one).read().decode() for one in members if one.isfile()}
    failed = False
    for example, (model, tokens, shape, field) in AGENTS.items():
        agent = yaml.safe_load((EXAMPLES / example).read_text())["spec"]["agent"]
        call = json.dumps({"name": "search", field: ARGUMENTS}, ensure_ascii=False)
        requests, searched = asked(arguments.binary, templates[model], tokens, agent, [shape % call, LAST, "None."])
        prompts = [request["prompt"] for request in requests]
        texts = expected(templates[model], tokens, agent, "<think>" in shape)
        same = prompts == texts and searched == [ARGUMENTS]
        failed |= not same
        sizes = ", ".join(str(len(text.encode())) for text in texts)
        print(f"{example} with the template of {model}: {'equal' if same else 'different'} ({sizes} bytes)")
        for number, (ours, theirs) in enumerate(zip(prompts, texts)):
            if ours != theirs:
                print(f"prompt {number + 1}\n  transformers: {theirs!r}\n  agent runtime: {ours!r}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
