#!/usr/bin/env python3
"""Asks an agent again and again, and counts its answers by revision.

It ends when the file STOP is there, or when the script that began it is gone.

    users.py --services URL --agent NAME --stop FILE [--users 8] [--pause 0.2] --output FILE
"""

import argparse
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url: str, number: int) -> tuple[str, str]:
    """Returns the revision that answered, and what became of the question."""
    body = json.dumps({"input": f"How many bridges are there in region {number}?"}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
    try:
        with _OPENER.open(request, timeout=120) as response:
            response.read()
            return response.headers.get("x-slipway-revision", "?"), "answered"
    except urllib.error.HTTPError as error:
        error.read()
        # The pod has as many runs in flight as it takes; it lost nothing.
        kind = "refused for load" if error.code == 429 else f"status {error.code}"
        return error.headers.get("x-slipway-revision", "?"), kind
    except OSError as error:
        return "?", f"failed: {error}"[:120]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--services", required=True)
    parser.add_argument("--agent", required=True)
    parser.add_argument("--stop", type=Path, required=True)
    parser.add_argument("--users", type=int, default=8)
    parser.add_argument("--pause", type=float, default=0.2)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    url = f"{arguments.services}/{arguments.agent}:80/proxy/v1/runs"
    counts: Counter[tuple[str, str]] = Counter()
    lock = threading.Lock()
    parent = os.getppid()

    def user(first: int) -> None:
        number = first
        while not arguments.stop.exists() and os.getppid() == parent:
            outcome = ask(url, number)
            number += arguments.users
            with lock:
                counts[outcome] += 1
            time.sleep(arguments.pause)

    threads = [threading.Thread(target=user, args=(first,)) for first in range(arguments.users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [{"revision": revision, "outcome": kind, "count": count} for (revision, kind), count in sorted(counts.items())]
    arguments.output.write_text(json.dumps(told, indent=1) + "\n")
    for each in told:
        print(f"{each['revision']}: {each['outcome']}: {each['count']}")


if __name__ == "__main__":
    main()
