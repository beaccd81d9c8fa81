//! The judge's formulas against values of independent implementations; `golden/make_judge.py` makes them.

#![allow(clippy::unwrap_used)] // a failing helper fails the test that uses it

use pretty_assertions::assert_eq;
use serde::Deserialize;
use slipway_analysis::judge::absolute::ln_bernoulli;
use slipway_analysis::judge::hypergeometric::{Table, ln_tilt};
use slipway_analysis::judge::process::{Direction, ln_sequential_t};
use slipway_analysis::judge::quantile::rank_bounds;
use slipway_vocabulary::evidence::Quantile;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Golden {
    tilts: Vec<Tilt>,
    sequential_ts: Vec<SequentialT>,
    bernoullis: Vec<Bernoulli>,
    ranks: Vec<Ranks>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tilt {
    canary: u64,
    stable: u64,
    events: u64,
    canary_events: u64,
    psi: f64,
    ln_e: f64,
    excess: f64,
    variance: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SequentialT {
    n: u16,
    sum: f64,
    squares: f64,
    above: bool,
    ln_e: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bernoulli {
    n: u64,
    x: u64,
    rate: f64,
    psi: f64,
    ln_e: f64,
}

#[derive(Debug, Deserialize)]
struct Ranks {
    parts: u16,
    n: u64,
    alpha: f64,
    lower: Option<u64>,
    upper: Option<u64>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("golden/judge.json")).unwrap()
}

fn assert_near(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance * expected.abs().max(1.0), "{found} is not {expected}");
}

#[test]
fn tilted_hypergeometrics_are_scipys() {
    for Tilt { canary, stable, events, canary_events, psi, ln_e, excess, variance } in golden().tilts {
        let table = Table { canary, stable, events, canary_events };
        let exact = canary_events as f64 * psi.ln() - ln_tilt(canary, stable, events, psi);
        assert_near(exact, ln_e, 1e-9);
        assert!(table.ln_e_value(psi) <= exact + 1e-12);
        assert_near(table.excess(), excess, 1e-9);
        assert_near(table.variance(), variance, 1e-9);
    }
}

#[test]
fn the_sequential_t_is_the_normal_mixture_of_noncentral_ts() {
    for SequentialT { n, sum, squares, above, ln_e } in golden().sequential_ts {
        let direction = if above { Direction::Above } else { Direction::Below };
        assert_near(ln_sequential_t(n, sum, squares, direction), ln_e, 1e-6);
    }
}

#[test]
fn bernoulli_ratios_are_scipys() {
    for Bernoulli { n, x, rate, psi, ln_e } in golden().bernoullis {
        assert_near(ln_bernoulli(n, x, rate, psi), ln_e, 1e-9);
    }
}

#[test]
fn quantile_ranks_are_confseqs() {
    for Ranks { parts, n, alpha, lower, upper } in golden().ranks {
        let found = rank_bounds(n, Quantile::from_parts(parts).unwrap(), alpha);
        assert_eq!(found, (lower, upper), "p {parts}, n {n}, alpha {alpha}");
    }
}
