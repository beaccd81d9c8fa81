#!/usr/bin/env python3
"""When a likelihood-ratio test that knows both laws would have found the canary slower: the time that no judge beats.

    oracle.py --rows model-plus-50,model-plus-50-busy --rollouts 60

It reads what the judge reads of one metric, the longest model call of each finished run, in the same buckets. It knows
the law of stable and that of the canary exactly, and multiplies their ratios over the canary's runs (Wald, Ann. Math.
Statist. 16, 1945). It stops at a false alarm of 1 %. The second test has a null law that is slower than stable by the
judge's margin, as the judge's own has. Rows need lognormal calls, and pods that are alike. Standard library only.
"""

import argparse
import functools
import math
import statistics

from generate import LATENCIES, WINDOW, Rollout, load_rows

LN_ALARM = math.log(100.0)
REQUEST = LATENCIES.index("RequestLatency")
# The judge's smallest margin in buckets of 1/32 octave: 9.05 %.
MARGIN_BUCKETS = 4
NORMAL = statistics.NormalDist()


def law_of_calls(row):
    """The probability of each number of calls of a run."""
    going_on = 1.0 - 1.0 / row.calls
    shares = {n: going_on ** (n - 1) * (1.0 - going_on) for n in range(1, row.most_calls)}
    shares[row.most_calls] = going_on ** (row.most_calls - 1)
    return shares


@functools.lru_cache(maxsize=None)
def ln_share(name, ratio, bucket):
    """The logarithm of the probability that the longest call of a run lies in a bucket."""
    row = load_rows()[name]

    def below(edge):
        seconds = 2.0 ** (edge / 32.0) * 1e-6 / ratio
        one = NORMAL.cdf(math.log(seconds / row.call_median) / row.call_sigma)
        return sum(share * one**n for n, share in law_of_calls(row).items())

    return math.log(max(below(bucket + 1) - below(bucket), 1e-300))


def minutes(row, number, margin_buckets):
    """The minute at which the test stops, or nothing."""
    null_ratio = 2.0 ** (margin_buckets / 32.0)
    rollout = Rollout(row, number)
    list(rollout.lines())
    by_window = {}
    canary = {pod.name for pod in rollout.pods if pod.arm == "canary"}
    for (window, pod, _), cell in rollout.counted.items():
        if pod in canary and window * WINDOW >= row.warm_up_seconds:
            by_window.setdefault(window, []).append(cell[4][REQUEST])
    ln_ratio = 0.0
    for window in sorted(by_window):
        for buckets in by_window[window]:
            for bucket, count in buckets.items():
                worse = ln_share(row.name, row.model_ratio, bucket)
                ln_ratio += count * (worse - ln_share(row.name, null_ratio, bucket))
        if ln_ratio >= LN_ALARM:
            return (window + 1) * WINDOW / 60.0
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", required=True, help="names, separated by commas")
    parser.add_argument("--rollouts", type=int, default=60)
    arguments = parser.parse_args()
    rows = load_rows()
    print("| row | against stable's law | against stable's law and the margin |\n|---|---|---|")
    for name in arguments.rows.split(","):
        cells = []
        for margin in (0, MARGIN_BUCKETS):
            found = [minutes(rows[name], number, margin) for number in range(arguments.rollouts)]
            ended = sorted(minute for minute in found if minute is not None)
            median = f", median minute {statistics.median(ended):.1f}" if ended else ""
            cells.append(f"{len(ended)} of {len(found)}{median}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
