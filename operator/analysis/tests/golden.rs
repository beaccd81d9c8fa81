//! Bounds and evidence against scipy; `golden.py` made the values.

#![allow(clippy::unwrap_used)] // a fixture that does not read fails the test

use pretty_assertions::assert_eq;
use serde_json::Value;
use slipway_analysis::slo::{RateTest, Side, quantile_bounds, rate_bounds};
use slipway_vocabulary::evidence::Quantile;

fn golden(table: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("data/golden.json")).unwrap();
    all[table].as_array().unwrap().clone()
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap()
}

#[test]
fn order_statistic_ranks_are_scipys() {
    for row in golden("orderStatistics") {
        let n = row["n"].as_u64().unwrap();
        // The value of the r-th smallest is r.
        let sorted: Vec<f64> = (1..=n).map(|rank| rank as f64).collect();
        let per_mille = u16::try_from(row["perMille"].as_u64().unwrap()).unwrap();
        let quantile = Quantile::from_parts(10 * per_mille).unwrap();
        let bounds = quantile_bounds(&sorted, quantile, number(&row, "confidence")).unwrap();
        assert_eq!((bounds.lower, bounds.upper), (row["lower"].as_f64(), row["upper"].as_f64()), "{row}");
    }
}

#[test]
fn rate_bounds_are_scipys() {
    for row in golden("rates") {
        let (hits, n) = (row["hits"].as_u64().unwrap(), row["n"].as_u64().unwrap());
        let (lower, upper) = rate_bounds(hits, n, number(&row, "confidence"));
        let close = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(close(lower, number(&row, "lower")) && close(upper, number(&row, "upper")), "{row}: {lower}, {upper}");
    }
}

#[test]
fn evidence_is_the_mixture_integral() {
    for row in golden("evidence") {
        let mut test = RateTest::new(Side::Above, number(&row, "reference"));
        test.observe(row["hits"].as_u64().unwrap(), row["misses"].as_u64().unwrap());
        let (found, expected) = (test.log_evidence(), number(&row, "logEvidence"));
        assert!((found - expected).abs() < 1e-6 * expected.abs().max(1.0), "{row}: {found}");
    }
}
