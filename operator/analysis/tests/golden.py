#!/usr/bin/env python3
"""Writes data/golden.json: reference values of bounds and evidence from scipy (the version is in the file)."""
import json
import pathlib

import numpy as np
import scipy
from scipy import integrate, special, stats


def order_statistics(n, p, confidence):
    upper = next((r for r in range(1, n + 1) if stats.binom.cdf(r - 1, n, p) >= confidence), None)
    lower = next((r for r in range(n, 0, -1) if stats.binom.sf(r - 1, n, p) >= confidence), None)
    return {"n": n, "perMille": round(1000 * p), "confidence": confidence, "lower": lower, "upper": upper}


def rate(hits, n, confidence):
    ends = stats.binomtest(hits, n).proportion_ci(2 * confidence - 1, method="exact")
    return {"hits": hits, "n": n, "confidence": confidence, "lower": ends.low, "upper": ends.high}


def evidence(hits, misses, q):
    """The mixture integral itself, by quadrature, with weight 2 as in slo/sequential.rs."""
    a, b = 2 * q, 2 * (1 - q)

    def ratio(x):
        return np.exp(hits * np.log(x / q) + misses * np.log((1 - x) / (1 - q)) + stats.beta.logpdf(x, a, b))

    peak = min(max((hits + a) / (hits + misses + a + b), q + 1e-9), 1 - 1e-9)
    total = sum(integrate.quad(ratio, low, high, limit=500, epsabs=0, epsrel=1e-10)[0]
                for low, high in ((q, peak), (peak, 1)) if high > low)
    return {"hits": hits, "misses": misses, "reference": q, "logEvidence": float(np.log(total / special.betaincc(a, b, q)))}


def main():
    golden = {
        "scipy": scipy.__version__,
        "orderStatistics": [order_statistics(n, p, c) for n in (10, 59, 100, 299, 1000, 2995)
                            for p in (0.5, 0.9, 0.95, 0.99, 0.999) for c in (0.9, 0.95, 0.99)],
        "rates": [rate(h, n, c) for h, n in ((0, 10), (1, 10), (5, 100), (99, 100), (10, 10), (37, 4000)) for c in (0.9, 0.95)],
        "evidence": [evidence(h, m, q) for q in (0.01, 0.05, 0.5) for h, m in ((0, 20), (3, 0), (5, 15), (20, 180), (8, 3))],
    }
    (pathlib.Path(__file__).parent / "data" / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


main()
