"""Makes judge.json: values of the judge's formulas from independent implementations.

    python3.10 -m venv venv && venv/bin/pip install numpy==2.2.6 scipy==1.15.3 confseq==0.0.11
    venv/bin/python make_judge.py > judge.json

confseq (MIT, Howard et al.) is the authors' implementation of arXiv 1906.09712 and 1810.08240; scipy gives the
hypergeometric law, the binomial law and Student's t by quadrature.
"""

import json
import math

import numpy as np
from confseq import boundaries
from scipy import integrate, stats


def tilts():
    cases = [(10, 190, 3, 1, 1.5), (10, 190, 12, 5, 4.0), (100, 100, 90, 60, 1.25), (240, 960, 60, 30, 12.0),
             (1, 19, 4, 1, 60.0), (5000, 5000, 4000, 2100, 1.5), (7, 3, 9, 6, 0.5)]
    for canary, stable, events, canary_events, psi in cases:
        law = stats.hypergeom(canary + stable, canary, events)
        j = np.arange(max(0, events - stable), min(canary, events) + 1)
        logs = law.logpmf(j) + j * math.log(psi)
        peak = logs.max()
        tilt = peak + math.log(np.exp(logs - peak).sum())
        yield {"canary": canary, "stable": stable, "events": events, "canaryEvents": canary_events, "psi": psi,
               "lnE": canary_events * math.log(psi) - tilt,
               "excess": canary_events - law.mean(), "variance": law.var()}


def sequential_ts():
    """The normal mixture over the standardised effect, integrated by quadrature over the noncentral t."""
    rng = np.random.default_rng(7)
    precision = 0.25
    for n, mean in [(2, 1.0), (5, 2.0), (10, 0.5), (30, 1.0), (30, -1.0), (120, 0.2)]:
        z = rng.normal(mean, 1.0, n)
        t = math.sqrt(n) * z.mean() / z.std(ddof=1)
        nu = n - 1

        def integrand(effect):
            return stats.nct.pdf(abs(t), nu, math.sqrt(n) * effect) * stats.norm.pdf(effect, 0, precision ** -0.5)

        mixed, _ = integrate.quad(integrand, -40, 40, limit=2000, points=[0, abs(t) / math.sqrt(n)])
        yield {"n": n, "sum": z.sum(), "squares": (z * z).sum(), "above": bool(t > 0),
               "lnE": math.log(mixed / stats.t.pdf(t, nu))}


def bernoullis():
    for n, x, rate, psi in [(20, 3, 0.05, 2.0), (600, 60, 0.05, 1.3), (1000, 2, 0.001, 12.0), (7, 7, 0.1, 50.0)]:
        tilted = rate * psi / (1 - rate + rate * psi)
        ratio = stats.binom.logpmf(x, n, tilted) - stats.binom.logpmf(x, n, rate)
        yield {"n": n, "x": x, "rate": rate, "psi": psi, "lnE": ratio}


def ranks():
    """Ranks from confseq's bound: floor(t (p - l) + 1) and ceil(t (p + u)), None where no sample has the rank."""
    for p, parts in [(0.5, 5000), (0.9, 9000), (0.95, 9500), (0.99, 9900), (0.999, 9990)]:
        for n in [20, 31, 120, 500, 1000, 5000, 100000]:
            for alpha in [0.05, 0.01]:
                v, opt = p * (1 - p) * n, p * (1 - p) * 1000
                upper = boundaries.beta_binomial_mixture_bound(v, alpha, opt, p, 1 - p, alpha, False) / n
                lower = boundaries.beta_binomial_mixture_bound(v, alpha, opt, 1 - p, p, alpha, False) / n
                # Beyond the support the mixture never reaches 1 / alpha: the authors' code returns the edge of the support.
                def log_mixture(k, g, h):
                    return boundaries.beta_binomial_log_mixture(k, v, opt, g, h, alpha, False)
                is_bounded_above = log_mixture(n * (1 - p), p, 1 - p) >= math.log(1 / alpha)
                is_bounded_below = log_mixture(n * p, 1 - p, p) >= math.log(1 / alpha)
                low = math.floor(n * (p - lower) + 1) if is_bounded_below else None
                high = math.ceil(n * (p + upper)) if is_bounded_above else None
                yield {"parts": parts, "n": n, "alpha": alpha, "lower": low, "upper": high}


print(json.dumps({"tilts": list(tilts()), "sequentialTs": list(sequential_ts()), "bernoullis": list(bernoullis()),
                  "ranks": list(ranks())}, indent=1))
