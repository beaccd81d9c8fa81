#!/usr/bin/env python3
"""Pools the ratios of behind_runtime.py over all runs: one ratio for each number of clients, with its interval of 95 %.

A random-effects meta-analysis on logarithms of ratios. Runs have effects of their own: their variance is DerSimonian
and Laird's (Controlled Clinical Trials 7, 1986). The interval is Hartung and Knapp's (Statistics in Medicine 20, 2001),
never narrower than without their factor.

    pooled.py            the table of docs/benchmarks.md, from behind_runtime.csv
"""

import csv
import itertools
import math
from pathlib import Path

from behind_runtime import T_95

ROWS = Path(__file__).with_name("behind_runtime.csv")


def quantile(pairs: int) -> float:
    """Student's t as behind_runtime.py takes it, for an interval from so many pairs."""
    return T_95[min(pairs - 1, max(T_95))]


def pooled(rows: list[dict]) -> tuple[float, float, float, float]:
    """The pooled ratio, its bounds, and the standard deviation between runs, as a share."""
    logs = [math.log(float(row["ratio"])) for row in rows]
    errors = [math.log(float(row["upper"]) / float(row["lower"])) / 2 / quantile(int(row["rounds"])) for row in rows]
    within = [1 / error**2 for error in errors]
    fixed = mean(within, logs)
    excess = sum(w * (log - fixed) ** 2 for w, log in zip(within, logs)) - (len(logs) - 1)
    between = max(0.0, excess / (sum(within) - sum(w * w for w in within) / sum(within)))
    weights = [1 / (error**2 + between) for error in errors]
    middle = mean(weights, logs)
    factor = sum(w * (log - middle) ** 2 for w, log in zip(weights, logs)) / (len(logs) - 1)
    spread = quantile(len(logs)) * math.sqrt(max(1.0, factor) / sum(weights))
    return math.exp(middle), math.exp(middle - spread), math.exp(middle + spread), math.sqrt(between)


def mean(weights: list[float], values: list[float]) -> float:
    return sum(weight * value for weight, value in zip(weights, values)) / sum(weights)


def main() -> None:
    with ROWS.open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: (int(row["clients"]), row["answers"]))
    print("| clients | answers | runs | rounds | ratio | between runs |\n|---|---|---|---|---|---|")
    for (clients, answers), group in itertools.groupby(rows, key=lambda row: (row["clients"], row["answers"])):
        of_level = list(group)
        ratio, lower, upper, between = pooled(of_level)
        rounds = sum(int(row["rounds"]) for row in of_level)
        print(f"| {clients} | {answers} | {len(of_level)} | {rounds} | {ratio:.3f} ({lower:.3f} to {upper:.3f}) "
              f"| {between * 100:.1f} % |")


if __name__ == "__main__":
    main()
