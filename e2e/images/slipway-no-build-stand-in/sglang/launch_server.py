"""STAND-IN for `python3 -m sglang.launch_server --model-path CHECKPOINT --config FILE`: upstream's way to read the file, its options
and its protocol, without SGLang."""

import argparse
import json
import sys

import yaml
from stand_in_engine import check_checkpoint, generate
from stand_in_server import Completions, serve

NAMES = [
    "chunked-prefill-size",
    "context-length",
    "dtype",
    "host",
    "kv-cache-dtype",
    "max-prefill-tokens",
    "max-running-requests",
    "mem-fraction-static",
    "model-path",
    "port",
    "pp-size",
    "quantization",
    "sampling-defaults",
    "served-model-name",
    "tp-size",
]
SWITCHES = ["disable-radix-cache", "enable-metrics"]


def arguments():
    """Reads the command line; what the file says comes first. A switch that is false says nothing there."""
    parser = argparse.ArgumentParser(prog="sglang.launch_server")
    for name in NAMES:
        parser.add_argument(f"--{name}")
    for name in SWITCHES:
        parser.add_argument(f"--{name}", action="store_true")
    line = sys.argv[1:]
    at = line.index("--config")
    with open(line[at + 1], encoding="utf-8") as file:
        options = yaml.safe_load(file)
    of_file = []
    for name, value in options.items():
        if name in SWITCHES:
            of_file += [f"--{name}"] if value else []
        else:
            of_file += [f"--{name}", str(value).lower() if isinstance(value, bool) else str(value)]
    return parser.parse_args([*of_file, *line[:at], *line[at + 2 :]])


class Server(Completions):
    """SGLang sends the pieces of a stop word as they come, and leaves the word there if it is asked to."""

    def steps(self, body):
        """The states of one generation."""
        keeps_stop_word = bool(body.get("no_stop_trim"))
        return generate(body["max_tokens"], body.get("stop") or [], lambda: False, keeps_stop_word)


def main():
    """Serves until it is ended."""
    options = arguments()
    check_checkpoint(options.model_path)
    print(f"stand-in for sglang.launch_server: {json.dumps(vars(options), sort_keys=True)}", flush=True)
    serve(Server, [options.served_model_name], options.host, int(options.port))


if __name__ == "__main__":
    main()
