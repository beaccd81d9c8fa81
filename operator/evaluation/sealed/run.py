#!/usr/bin/env python3
"""Judges the sealed rows with a built `slipway-analysis` and prints a Markdown table with exact intervals.

    run.py --judge target/debug/slipway-analysis --rollouts 60 --jobs 2 --rows stalls,lognormal-calls

A rollout's number is its seed: `--first 1000` judges rollouts that a run from 0 has not seen.
Shares have Clopper-Pearson intervals of 95 %. Uses the standard library only.
"""

import argparse
import collections
import json
import math
import statistics
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor

from generate import EPOCH, evidence, load_rows


def judge(job):
    """The final verdict of one rollout: what, the minute, and the reason's code with its suspect."""
    program, row, number = job
    ran = subprocess.run(
        [program, "judge", "--evidence", "/dev/stdin"], input=evidence(row, number), capture_output=True, text=True
    )
    if ran.returncode != 0:
        raise SystemExit(f"{row.name}, rollout {number}: {ran.stderr.strip()}")
    lines = ran.stdout.splitlines()
    final = json.loads(lines[-1])
    last = json.loads(lines[-2])
    reason = last["reason"].split(";")[0]
    minute = (final["decidedAt"] - EPOCH) / 60.0 if final["decidedAt"] else None
    return final["final"], minute, reason


def tail(events, n, p):
    """P(X >= events) of a binomial."""
    log = [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in range(n + 1)]
    terms = (log[k] + k * math.log(p) + (n - k) * math.log1p(-p) for k in range(events, n + 1))
    return sum(math.exp(term) for term in terms)


def bisect_rate(is_low):
    """The rate at which a monotone statement changes."""
    low, high = 1e-12, 1.0 - 1e-12
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return low


def interval(events, n):
    """Clopper-Pearson, 95 %, in percent."""
    lower = 0.0 if events == 0 else bisect_rate(lambda p: tail(events, n, p) < 0.025)
    upper = 1.0 if events == n else bisect_rate(lambda p: 1.0 - tail(events + 1, n, p) > 0.025)
    return lower * 100.0, upper * 100.0


def cell(minutes, n):
    """`3 of 60 (1.0-13.9 %), median minute 12.0`."""
    lower, upper = interval(len(minutes), n)
    text = f"{len(minutes)} of {n} ({lower:.1f}-{upper:.1f} %)"
    return text + (f", minute {statistics.median(minutes):.1f}" if minutes else "")


def suspect(reason):
    """The code of a reason and what it names, as in `Hanging: RequestLatency/hanging`."""
    parts = [part.strip() for part in reason.split(":")]
    return ": ".join(parts[:2]) if "/" in reason else parts[0]


def line(row, results):
    """A row of the table."""
    n = len(results)
    back = [minute for verdict, minute, _ in results if verdict == "Rollback"]
    promoted = [minute for verdict, minute, _ in results if verdict == "Promote"]
    why = reasons(reason for verdict, _, reason in results if verdict == "Rollback")
    held = reasons(reason for verdict, _, reason in results if verdict not in ("Rollback", "Promote"))
    return f"| {row.name} | {row.gate} | {cell(back, n)} | {why} | {cell(promoted, n)} | {held} |"


def reasons(found):
    """The most frequent reasons with their counts."""
    counted = collections.Counter(suspect(reason) for reason in found)
    return ", ".join(f"{reason} {count}" for reason, count in counted.most_common(3)) or "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--judge", required=True, help="path of slipway-analysis")
    parser.add_argument("--rollouts", type=int, default=60, help="rollouts of a row of share 1")
    parser.add_argument("--first", type=int, default=0, help="number of the first rollout")
    parser.add_argument("--jobs", type=int, default=1, help="rollouts at the same time")
    parser.add_argument("--rows", help="names, separated by commas; all when absent")
    arguments = parser.parse_args()
    rows = load_rows()
    names = arguments.rows.split(",") if arguments.rows else list(rows)
    unknown = [name for name in names if name not in rows]
    if unknown:
        parser.error(f"--rows: {', '.join(unknown)} is none of {', '.join(rows)}")
    print("| row | gate | rolled back | reasons | promoted | undecided |\n|---|---|---|---|---|---|", flush=True)
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for name in names:
            row = rows[name]
            count = max(1, round(arguments.rollouts * row.share))
            numbers = range(arguments.first, arguments.first + count)
            results = list(pool.map(judge, [(arguments.judge, row, number) for number in numbers]))
            print(line(row, results), flush=True)


if __name__ == "__main__":
    sys.exit(main())
